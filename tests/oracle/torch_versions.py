"""Writes torch_2.15_peaks.json: steps of the other files, drawn by seed, as another PyTorch makes them.

    python torch_versions.py --list    # world, rank, script, word
    ac-advisor dryrun --world W --rank R --output /dev/null -- python torch_versions.py SCRIPT FOLDER WORD
    python torch_versions.py --join FOLDER torch_2.15_peaks.json

The drawn steps of a script run as the script runs them, but for the PyTorch. Needs torchtitan 0.2.2 on PYTHONPATH.
"""

import json
import os
import random
import runpy
import sys

SEED = 215
# Of each file so many; those with a rank of their own name who knows it.
DRAWN = {
    "emulated": 28, "drawn": 14, "wide": 18, "user_loop": 4, "attention": 6, "wide_heads": 3, "packing": 6, "position": 3,
    "fp16": 4, "fsdp1": 8, "host_offload": 4, "compression": 3, "tp": 8, "pp": 8, "cp": 5, "ep": 4, "peft": 6,
    "peft_methods": 6, "adapter": 12, "encoder_adapter": 3, "vision": 4, "task": 12, "scoring": 4,
    "distillation": 3, "loop": 8, "offload": 3, "float8": 4, "float8_tp": 2,
    "compile": 14, "compile_tp": 2, "adapter_compile": 3, "nf4_compile": 2, "float8_compile": 3, "window_compile": 2,
}
RANKS = {"pp": "pp_cases", "cp": "cp_cases"}
HERE = os.path.dirname(os.path.abspath(__file__))


def peaks_of(name):
    with open(os.path.join(HERE, f"{name}_peaks.json")) as file:
        return json.load(file)


def key(case):
    """What tells a step from the others of its file."""
    return json.dumps([case.get("model"), case.get("label"), case.get("case"), case["options"] if "options" in case else 0])


def drawn(name):
    cases = peaks_of(name)["cases"]
    return random.Random(f"{SEED} {name}").sample(cases, min(DRAWN[name], len(cases)))


def place_of(name, case):
    """World and rank, and the word that some scripts ask for."""
    if "case" not in case:
        words = case["options"].split() if isinstance(case.get("options"), str) else []
        world = int(words[words.index("--world") + 1]) if "--world" in words else 1
        return world, 0, ""
    entry = case["case"]
    world = entry.get("world", 1)
    rank = __import__(RANKS[name]).rank_of(entry) if name in RANKS else 0
    return world, rank, "hsdp" if name in ("tp", "ep", "float8_tp") and entry.get("shard", "").startswith("hsdp") else ""


def runs():
    for name in DRAWN:
        for place in dict.fromkeys(place_of(name, case) for case in drawn(name)):
            world, rank, word = place
            yield world, rank, name, word


def draw_alone(name):
    """The scripts ask their lists of cases; most of them hand them to another's main."""
    wanted = {key(c) for c in drawn(name)}
    if name == "adapter":
        import adapter_cases as module

        labels = {c["label"] for c in drawn(name)}
        module.cases = lambda every=module.cases: (c for c in every() if c[0] in labels)
    elif name == "emulated":
        import emulated_cases as module

        module.all_cases = lambda every=module.all_cases: (e for e in every() if key({"case": e}) in wanted)
    elif name == "loop":
        import loop_cases as module

        module.CASES = [c for c in module.CASES if key({"model": c[0], "options": c[1]}) in wanted]
    elif "case" in drawn(name)[0]:
        import emulated_peaks as module

        module.main = lambda entries, *given, main=module.main, **more: main(
            [e for e in entries if key({"case": e}) in wanted], *given, **more)
    else:
        import loop_peaks as module

        module.main = lambda cases, *given, main=module.main: main(
            [c for c in cases if key({"model": c[0], "options": c[1]}) in wanted], *given)


def run(name, folder, word):
    """The script's own main, of the drawn steps alone."""
    os.environ["LOCAL_RANK"] = "0"  # the scripts are on the first device, which ProcessGroupNCCL2 asks the variable for
    sys.path.insert(0, HERE)
    script = os.path.join(HERE, f"{name}_peaks.py")
    output = os.path.join(folder, f"{name}.json")
    sys.argv = [script, output]
    draw_alone(name)
    if word:
        sys.argv += ["--only", word]
    runpy.run_path(script, run_name="__main__")


def join(folder, output):
    """One file of all, each step with the file that has it under 2.11."""
    models, cases, sources = {}, [], set()
    for name in DRAWN:
        path = os.path.join(folder, f"{name}.json")
        if not os.path.exists(path):
            continue
        with open(path) as file:
            document = json.load(file)
        sources |= {part for part in document["source"].split(", ") if part.startswith("PyTorch")}
        found = {key(c): c for c in document["cases"]}
        for case in drawn(name):
            if key(case) in found:
                cases.append({"of": f"{name}_peaks.json"} | found[key(case)])
        for model, config in document.get("models", {}).items():
            models.setdefault(model, config)
            assert models[model] == config, f"{model} of {name} is another's name"
    with open(output, "w") as file:
        source = ", ".join(sorted(sources)) + "; each step as the file that it is of has it under 2.11"
        file.write('{"source": ' + json.dumps(source) + ', "torch": "2.15", "models": {\n')
        file.write(",\n".join(f"{json.dumps(n)}: {json.dumps(c)}" for n, c in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")


def main():
    if sys.argv[1] == "--list":
        for world, rank, name, word in runs():
            print(world, rank, name, word or "-")
    elif sys.argv[1] == "--join":
        join(*sys.argv[2:])
    else:
        name, folder, word = sys.argv[1:]
        run(name, folder, word.strip("-"))


if __name__ == "__main__":
    main()
