"""What other tools' own parsers make of training files.

    python training_files.py training_files.json
        those of examples/training: writes the values that tests/intake/training_test.cpp compares with ours
    python training_files.py shipped_files.json --shipped axolotl FOLDER --advisor build/release/ac-advisor
        those that a tool ships (its repository, unpacked): how many ac-advisor reads, how many values agree

Packages: trl 1.16.0, transformers 5.23.0; llamafactory 0.9.5, axolotl 0.21.0, torchtitan 0.2.2, torchtune 0.6.1,
nemo_automodel 0.5.0, litgpt 0.5.13, ms-swift 4.6.0 with its requirements (transformers 5.19.0, trl 0.29.1), openrlhf 0.11.2,
verl 0.9.1 with hydra-core 1.3.2, or Megatron-LM's repository at core_v0.19.0 on PYTHONPATH. No device and no weights are
needed. A tool whose package is not there is left as it was. Scripts are run by
bash itself, with nothing on its PATH but programs that write down how they were started.
"""

import argparse
import contextlib
import enum
import importlib
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def trl_values(path, command="sft"):
    os.environ["ACCELERATE_USE_CPU"] = "1"
    make_parser = importlib.import_module(f"trl.scripts.{command}").make_parser
    parsed = make_parser().parse_args_and_config(["--config", str(path), "--use_cpu", "true"], fail_with_unknown_args=False)
    return {name: getattr(values, name) for values in parsed for name in vars(values)}


def llamafactory_values(path):
    """parser.py's _parse_train_args without its package's __init__, which asks for a web server's packages."""
    os.environ["DISABLE_VERSION_CHECK"] = "1"  # it wants transformers below 5.7; its own fields do not depend on that
    import yaml
    from llamafactory.hparams.data_args import DataArguments
    from llamafactory.hparams.finetuning_args import FinetuningArguments
    from llamafactory.hparams.generating_args import GeneratingArguments
    from llamafactory.hparams.model_args import ModelArguments
    from llamafactory.hparams.training_args import TrainingArguments
    from transformers import HfArgumentParser

    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    given |= {"output_dir": "out", "use_cpu": True, "deepspeed": None}
    parser = HfArgumentParser([ModelArguments, DataArguments, TrainingArguments, FinetuningArguments, GeneratingArguments])
    parsed = parser.parse_dict(given)
    return {name: getattr(values, name) for values in parsed for name in vars(values)}


def axolotl_values(path):
    """validate_config and normalize_config of `axolotl train`, on one H100; the model's type is Llama's, as its configuration is
    not here."""
    os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"
    logging.disable(logging.CRITICAL)
    import axolotl.utils.config as config
    import axolotl.utils.schemas.validation as validation
    import yaml
    from axolotl.utils.dict import DictDefault
    from transformers import LlamaConfig

    validation._flash_attn_kernel_failure = lambda implementation: None
    config.load_model_config = lambda cfg: LlamaConfig()
    config.is_torch_bf16_gpu_available = lambda: True
    config.log_gpu_memory_usage = lambda *arguments, **named: None
    cfg = DictDefault(yaml.safe_load(path.read_text(encoding="utf-8")))
    for key in ("deepspeed",):  # a file that need not be here
        cfg.pop(key, None)
    config.prepare_plugins(cfg)
    h100 = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 1, "n_node": 1, "compute_capability": "sm_90"}
    cfg = config.validate_config(cfg, h100, {"torch_version": "2.13.0"})
    config.normalize_config(cfg)
    return dict(cfg)


def flattened(node, prefix=""):
    """The paths of a tree of maps, as src/intake/document.cpp has them."""
    values = {}
    for key, value in node.items():
        if isinstance(value, dict) and value:
            values |= flattened(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values


def torchtitan_values(path):
    import dataclasses

    from torchtitan.config import ConfigManager

    return flattened(dataclasses.asdict(ConfigManager().parse_args(["--job.config_file", str(path)])))


def torchtune_values(path):
    """OmegaConf's, as torchtune/config/_parse.py loads it; a recipe's own defaults are `cfg.get(key, default)` in its source."""
    from omegaconf import OmegaConf

    return flattened(OmegaConf.to_container(OmegaConf.load(path), resolve=True))


def automodel_values(path):
    """Its own loader's tree, and what `parse_distributed_section` makes of its section."""
    import dataclasses

    from nemo_automodel.components.config.loader import load_yaml_config
    from nemo_automodel.recipes._dist_utils import parse_distributed_section

    logging.disable(logging.CRITICAL)
    tree = load_yaml_config(str(path))
    values = flattened(tree.raw_config if hasattr(tree, "raw_config") else tree.to_dict())
    section = tree.raw_config.get("distributed") or {}
    parsed = parse_distributed_section({k: v for k, v in section.items() if v != "none"})
    for field in dataclasses.fields(parsed["strategy_config"]):
        value = getattr(parsed["strategy_config"], field.name)
        if field.name == "mp_policy" and value is not None:
            for name in ("param_dtype", "reduce_dtype"):
                values[f"distributed.mp_policy.{name}"] = str(getattr(value, name)).removeprefix("torch.")
        else:
            values[f"distributed.{field.name}"] = value
    for name in ("tp_size", "pp_size", "cp_size", "ep_size", "dp_size", "dp_replicate_size"):
        values[f"distributed.{name}"] = parsed[name]
    values["distributed.activation_checkpointing"] = parsed["activation_checkpointing"]
    return values


def litgpt_values(path):
    """jsonargparse's, as litgpt/__main__.py asks it, of finetune_lora where a key is LoRA's."""
    import yaml
    from jsonargparse import ArgumentParser
    from litgpt.finetune.full import setup as full
    from litgpt.finetune.lora import setup as lora

    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    adapted = any(key.startswith("lora_") or key == "quantize" for key in given)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_function_arguments(lora if adapted else full)
    given.pop("data", None)
    return flattened(json.loads(parser.dump(parser.parse_object(given), format="json")))


LAUNCHERS = "swift torchrun accelerate deepspeed python python3 ray megatron".split()
STUB = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], dict(os.environ)]) + "\\n")
"""


def started_by(path, given=()):
    """What a script starts, as bash has it: (program, arguments, environment) of each launcher that it calls.
    `given`: what it is called with."""
    with tempfile.TemporaryDirectory() as folder:
        programs, log = Path(folder) / "bin", Path(folder) / "log"
        programs.mkdir()
        (Path(folder) / "pretrain_gpt.py").touch()  # a script may look whether it is there
        for name in LAUNCHERS:
            (programs / name).write_text(STUB.format(python=sys.executable, log=str(log)))
            (programs / name).chmod(0o755)
        for name in ("expr", "seq"):
            (programs / name).symlink_to(shutil.which(name))
        bash = [shutil.which("bash"), str(path.resolve()), *given]
        subprocess.run(bash, cwd=folder, env={"PATH": str(programs), "HOME": "/root"}, capture_output=True, timeout=60)
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def ms_swift_values(path):
    """SftArguments' or RLHFArguments' own parsing and __post_init__, of a Qwen2 configuration in place of the model; of YAML what
    swift/cli/main.py's parse_yaml_args makes arguments of."""
    logging.disable(logging.CRITICAL)
    os.environ |= {"USE_HF": "1", "HF_HUB_OFFLINE": "1"}
    import swift.trainers.arguments as training
    import torch
    from swift.arguments import PretrainArguments, RLHFArguments, SftArguments
    from swift.cli.main import parse_yaml_args
    from swift.utils import parse_args

    kinds = {"sft": SftArguments, "pt": PretrainArguments, "rlhf": RLHFArguments}
    environment = {}
    if path.suffix == ".sh":
        ((method, arguments, environment),) = [
            (words[0], words[1:], variables)
            for program, words, variables in started_by(path)
            if program == "swift" and words[0] in kinds
        ]
    else:
        arguments = [str(path)]
        parse_yaml_args(arguments)
        method = "rlhf" if "--rlhf_type" in arguments else "sft"
    named = arguments[arguments.index("--model") + 1] if "--model" in arguments else None
    world = int(environment.get("NPROC_PER_NODE", 1)) * int(environment.get("NNODES", 1))
    with tempfile.TemporaryDirectory() as folder:
        qwen = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "max_position_embeddings": 32768, "torch_dtype": "bfloat16"}
        (Path(folder) / "config.json").write_text(json.dumps(qwen))
        # accelerate's and DeepSpeed's own start of processes is left out
        given = [*arguments, "--model", folder, "--model_type", "qwen2", "--template", "qwen2_5", "--output_dir", folder, "--use_cpu", "true"]
        training.get_dist_setting = lambda: (-1, -1, world, world)
        SftArguments._init_device = lambda self: None
        SftArguments._init_deepspeed = lambda self: setattr(self, "deepspeed", None)
        training.is_liger_available = lambda: True
        parsed, rest = parse_args(kinds[method], given)
    if rest:
        raise ValueError(f"unknown arguments: {rest}")
    values = {name: value for name, value in vars(parsed).items() if not name.startswith("_")}
    values["gradient_accumulation_steps"] = parsed.training_args.gradient_accumulation_steps
    values |= {name: str(value).removeprefix("torch.") for name, value in values.items() if isinstance(value, torch.dtype)}
    values["target_modules"] = ",".join(parsed.target_modules) if isinstance(parsed.target_modules, list) else parsed.target_modules
    for name in ("bnb_4bit_compute_dtype", "gradient_checkpointing_kwargs"):  # ours is what stands there
        values.pop(name)
    for name in ("torch_dtype", "max_length"):  # of the stand-in's configuration
        if f"--{name}" not in arguments:
            values.pop(name)
    return values | {"model": named, "swift": method} | {"NPROC_PER_NODE": environment.get("NPROC_PER_NODE")}


def openrlhf_values(path):
    """The parser that the module makes below `if __name__ == "__main__"`, and what stands there before train(args)."""
    import ast

    found = importlib.util.find_spec("openrlhf")
    if found is None:
        raise ImportError("openrlhf")
    package = Path(found.submodule_search_locations[0])
    program, words = next(
        (word.rsplit(".", 1)[1], arguments[place + 1 :])
        for _, arguments, _ in started_by(path)
        for place, word in enumerate(arguments)
        if word.startswith("openrlhf.cli.train_")
    )
    source = package / "cli" / f"{program}.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    (main,) = [node for node in tree.body if isinstance(node, ast.If)]
    main.body = [node for node in main.body if "train(" not in ast.unparse(node)]
    # its packages' __init__ ask for DeepSpeed and vLLM; utils/config.py, which makes sections of names, for neither
    main.body = [node for node in main.body if "openrlhf.utils.config" not in ast.unparse(node)]
    imports = [node for node in tree.body if ast.unparse(node).partition(" ")[2].partition(" ")[0] in sys.stdlib_module_names]
    before, sys.argv = sys.argv, [program, *words]
    space = {"__name__": "__main__"}
    exec((package / "utils/config.py").read_text(encoding="utf-8"), space)
    try:
        exec(compile(ast.Module([*imports, main], []), str(source), "exec"), space)
    finally:
        sys.argv = before

    def flat(node, prefix=""):
        for name, value in vars(node).items():
            if hasattr(value, "__dict__"):
                yield from flat(value, f"{prefix}{name}.")
            else:
                yield prefix + name, value

    values = dict(flat(space["args"])) | {"openrlhf": program}
    targets = values.get("ds.lora.target_modules")
    values["ds.lora.target_modules"] = ",".join(targets) if isinstance(targets, list) else targets
    return values


def parsed_by_megatron(words, world, environment):
    """parse_args and validate_args of `words`, as rank 0 of `world` H100s runs them: option → value, a flag's whether it holds."""
    import typing

    typing.override = getattr(typing, "override", lambda method: method)  # Python 3.12's
    import torch
    from megatron.training import arguments as theirs

    torch.cuda.get_device_capability = lambda *device: (9, 0)
    theirs.get_device_arch_version = lambda: 9
    torch.use_deterministic_algorithms = lambda *mode, **named: None
    before = sys.argv, dict(os.environ)
    sys.argv = ["pretrain_gpt.py", *words]
    os.environ |= {"WORLD_SIZE": str(world)} | environment
    try:
        args = theirs.validate_args(theirs.parse_args())
    finally:
        sys.argv = before[0]
        os.environ.clear()
        os.environ.update(before[1])
    values = {}
    for action in theirs.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))._actions:
        for name in action.option_strings:
            if not hasattr(args, action.dest):
                continue
            value = getattr(args, action.dest)
            value = value == action.const if action.nargs == 0 else value
            value = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
            values[name.removeprefix("--")] = getattr(value, "name", value)
    return values


def megatron_values(path):
    text = path.read_text(encoding="utf-8")
    paths = [f"${number}" for number in range(1, 6) if re.search(rf"=\${number}\b", text)]  # what it has no default for
    arguments, environment = next(
        (arguments, variables)
        for _, arguments, variables in started_by(path, paths)
        if any(word.endswith("pretrain_gpt.py") for word in arguments)
    )
    (place,) = [place for place, word in enumerate(arguments) if word.endswith("pretrain_gpt.py")]
    launcher = argparse.ArgumentParser()
    for name in ("nproc-per-node", "nnodes"):
        launcher.add_argument("--" + name, "--" + name.replace("-", "_"), type=int, default=1)
    started, _ = launcher.parse_known_args(arguments[:place])
    kept = {name: environment[name] for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "NVTE_FLASH_ATTN") if name in environment}
    return parsed_by_megatron(arguments[place + 1 :], started.nproc_per_node * started.nnodes, kept)


def verl_values(path):
    """What Hydra composes of ppo_trainer.yaml and the script's overrides, by paths."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    folder = Path(importlib.util.find_spec("verl").origin).parent / "trainer" / "config"
    overrides = next(
        arguments[place + 1 :]
        for _, arguments, _ in started_by(path)
        for place, word in enumerate(arguments)
        if word == "verl.trainer.main_ppo"
    )
    with initialize_config_dir(str(folder), version_base=None):
        composed = OmegaConf.to_container(compose("ppo_trainer", overrides), resolve=True)

    def flat(section, prefix=""):
        for name, value in section.items():
            if isinstance(value, dict) and value:
                yield from flat(value, f"{prefix}{name}.")
            else:
                yield prefix + name, value

    return dict(flat(composed))


TOOLS = {
    "megatron": ("megatron*.sh", megatron_values),
    "verl": ("verl*", verl_values),
    "trl": ("trl-sft*.yaml", trl_values),
    "trl-dpo": ("trl-dpo*.yaml", lambda path: trl_values(path, "dpo")),
    "trl-kto": ("trl-kto*.yaml", lambda path: trl_values(path, "kto")),
    "trl-reward": ("trl-reward*.yaml", lambda path: trl_values(path, "reward")),
    "trl-grpo": ("trl-grpo*.yaml", lambda path: trl_values(path, "grpo")),
    "trl-rloo": ("trl-rloo*.yaml", lambda path: trl_values(path, "rloo")),
    "trl-distillation": ("trl-distillation*.yaml", lambda path: trl_values(path, "distillation")),
    "llamafactory": ("llamafactory*.yaml", llamafactory_values),
    "axolotl": ("axolotl*.yaml", axolotl_values),
    "torchtitan": ("torchtitan*.toml", torchtitan_values),
    "torchtune": ("torchtune*.yaml", torchtune_values),
    "automodel": ("automodel*.yaml", automodel_values),
    "litgpt": ("litgpt*.yaml", litgpt_values),
    "ms-swift": ("ms-swift*", ms_swift_values),
    "openrlhf": ("openrlhf*", openrlhf_values),
}


def plain(tool, values):
    """The mapped keys that have one value, as text."""
    known = json.loads((ROOT / f"data/tools/{tool}.json").read_text())
    texts = {}
    for key in known["defaults"]:
        value = values.get(key)
        value = value.value if isinstance(value, enum.Enum) else value
        if key in values and key != "deepspeed" and not isinstance(value, (list, dict, tuple)):
            texts[key] = str(value)
    return texts


def compare_examples(out):
    oracle = json.loads(out.read_text()) if out.exists() else {"files": {}}
    for tool, (pattern, values_of) in TOOLS.items():
        known = json.loads((ROOT / f"data/tools/{tool}.json").read_text())
        for path in sorted((ROOT / "examples/training").glob(pattern)):
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    values = plain(tool, values_of(path))
            except ImportError as error:
                print(f"{tool}: left as it was: {error}", file=sys.stderr)
                continue
            oracle["files"][str(path.relative_to(ROOT))] = {"tool": tool, "version": known["version"], "values": values}
    out.write_text(json.dumps(oracle, indent=1) + "\n")


def same(ours, theirs):
    def canonical(text):
        text = text.strip().lower()
        text = {"none": "", "null": "", "~": "", "yes": "true", "on": "true", "no": "false", "off": "false"}.get(text, text)
        with contextlib.suppress(ValueError):
            return str(float(text))
        return text

    return canonical(ours) == canonical(theirs)


# By hand, as its user would have to: what a file leaves open.
BY_HAND = {tool: ["--seq", "2048"] for tool in ("torchtune", "automodel", "litgpt", "ms-swift")} | {"openrlhf": ["--world", "8"]}
BY_HAND |= {tool: ["--prompt", "512"] for tool in ("trl-grpo", "trl-rloo", "trl-distillation")}


def ours(advisor, tool, path):
    """The mapping, and what had to be left out for it; or None and the reason."""
    ignored = []
    while True:
        command = [advisor, "explain", str(path), "--mapping", "--format", "json", "--tool", tool]
        run = subprocess.run(command + BY_HAND.get(tool, []) + [word for key in ignored for word in ("--ignore", key)], capture_output=True, text=True)
        if run.returncode == 0:
            return json.loads(run.stdout), ignored
        more = re.search(r"; --ignore (\S+) plans without it", run.stderr)
        if not more or more[1] in ignored:
            return None, run.stderr.strip().splitlines()[-1]
        ignored.append(more[1])


def compare_shipped(out, tool, folder, advisor, pattern):
    known = json.loads((ROOT / f"data/tools/{tool}.json").read_text())
    row = {"version": known["version"], "files": 0, "parsed": 0, "read": 0, "read_without_keys": 0, "refused": {}, "keys": 0, "equal": 0}
    row |= {"ignored": {}, "different": [], "unknown_keys": {}}
    for path in sorted(folder.rglob(pattern)):
        row["files"] += 1
        name = str(path.relative_to(folder))
        try:
            with contextlib.redirect_stdout(sys.stderr):
                values = plain(tool, TOOLS[tool][1](path))
        except (Exception, SystemExit) as error:  # the tool's own parser does not take it, nor need we
            print(f"{name}: {tool}: {str(error)[:200]}", file=sys.stderr)
            continue
        row["parsed"] += 1
        mapping, left_out = ours(advisor, tool, path.resolve())
        if mapping is None:
            reason = re.sub(r"^.*?: (?=[\w.]+: )", "", left_out.replace(str(path.resolve()), ""))
            row["refused"][name] = reason[:160]
            continue
        row["read_without_keys" if left_out else "read"] += 1
        for key in left_out:
            row["ignored"][key] = row["ignored"].get(key, 0) + 1
        for key in mapping["unknown"]:
            word = key.split(" ")[0]
            row["unknown_keys"][word] = row["unknown_keys"].get(word, 0) + 1
        for line in mapping["mapping"]:
            if line["key"] in values:
                row["keys"] += 1
                if same(line["value"], values[line["key"]]):
                    row["equal"] += 1
                else:
                    row["different"].append(f"{name}: {line['key']}: {line['value']}, theirs {values[line['key']]}")
    oracle = json.loads(out.read_text()) if out.exists() else {"schema": 1, "tools": {}}
    oracle["tools"][tool] = row
    out.write_text(json.dumps(oracle, indent=1) + "\n")
    print({key: value for key, value in row.items() if isinstance(value, int)}, row["ignored"], row["different"][:10], sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shipped", nargs=2, metavar=("TOOL", "FOLDER"))
    parser.add_argument("--pattern", default="*.y*ml", help="of the files in FOLDER")
    parser.add_argument("--advisor", default=str(ROOT / "build/release/ac-advisor"))
    arguments = parser.parse_args()
    if not arguments.shipped:
        return compare_examples(arguments.out)
    tool, folder = arguments.shipped
    compare_shipped(arguments.out, tool, Path(folder), arguments.advisor, arguments.pattern)


if __name__ == "__main__":
    main()
