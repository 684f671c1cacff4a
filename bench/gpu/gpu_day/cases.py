"""What is measured, in the order of its worth: tests/oracle's own cases with what was stored of them on the emulated
device, and the steps whose times are taken."""

import json
import random

from .machine import ROOT

ORACLE = ROOT / "tests/oracle"
WHOLE = ("llama1b_4layers", "small_llama", "small_mixtral", "llama1b", "qwen3_06b", "gemma3_1b")
SCRIPTS = ("emulated_peaks", "drawn_peaks", "wide_peaks", "attention_peaks", "position_peaks", "fp16_peaks", "peft_peaks")


def name_of(case):
    """As emulated_cases.label, which needs transformers."""
    return " ".join(f"{key}={value}" for key, value in case.items())


def stored(script):
    """The cases of a script's file that can be measured here: of one rank, or of FSDP2's first rank alone, whose
    collectives PyTorch's `fake` process group answers (DDP fails with it)."""
    document = json.loads((ORACLE / f"{script}.json").read_text())
    for row in document["cases"]:
        case = row["case"]
        sharded = case.get("shard", "none").split(":")[0] in ("fsdp2", "hsdp")
        if "quantize" in case or case.get("world", 1) > 1 and not sharded:
            continue
        yield {"label": f"{script}: {name_of(case)}", "script": script, "world": case.get("world", 1), "case": case,
               "stored": {key: value for key, value in row.items() if key != "case"}}


def memory_cases():
    """Every job once: {label, script, world, case, stored, launches}."""
    by_script = {script: list(stored(script)) for script in SCRIPTS}
    emulated = by_script["emulated_peaks"]
    alone = [job for jobs in by_script.values() for job in jobs if job["world"] == 1]
    first = {}
    for job in emulated:
        case = job["case"]
        if job["world"] == 1 and case["ac"] == "none" and case["loss"] == "ce":
            first.setdefault(case["model"], job | {"launches": True})
    tiers = [first.values(),
             [job for job in emulated if job["world"] == 1 and job["case"]["model"] in WHOLE],
             [job for job in alone if job["script"] in ("drawn_peaks", "wide_peaks")],
             [job for script in ("emulated_peaks", "drawn_peaks", "wide_peaks") for job in by_script[script]
              if job["world"] in (8, 3)],
             [job for job in alone if job["script"] in ("attention_peaks", "position_peaks", "fp16_peaks", "peft_peaks")]]
    rest = [job for jobs in by_script.values() for job in jobs]
    random.Random(39).shuffle(rest)
    found = {}
    for job in [job for tier in tiers for job in tier] + rest:
        found.setdefault(job["label"], {"launches": False} | job)
    return list(found.values())


def timed(model, batch, seq, ac="none", loss="ce", **more):
    case = {"model": model, "batch": batch, "seq": seq, "ac": ac, "loss": loss} | more
    return {"label": "step: " + name_of(case), "case": case}


def timed_cases():
    """transformers' step, its output held, fused AdamW; `layers`: so many of the model's blocks."""
    one = ("llama-3.2-1b", 8, 2048)
    for ac in ("none", "full"):
        yield timed(*one, ac)
        yield timed("llama-3.2-1b", 1, 128, ac)  # what the host takes to issue it
        yield timed("llama-60m", 1, 128, ac)
        yield timed("llama-60m", 32, 512, ac)
        yield timed("qwen3-0.6b", 4, 2048, ac)
    yield timed(*one, "selective")
    yield timed(*one, loss="chunked:1024")
    yield timed(*one, "full", "chunked:1024")
    for ac in ("none", "full"):
        yield timed("llama-3.2-1b", 4, 2048, ac, lora=16, lora_targets="q_proj,v_proj", input_require_grads="off")
        yield timed("gemma-3-1b", 2, 2048, ac)
        yield timed("llama-3.1-8b", 2, 4096, ac, layers=4)
        yield timed("small_mixtral", 4, 1024, ac)
    yield timed("tiny-llama", 2, 64)
    yield timed("llama-3.2-1b", 4, 2048, optimizer="adamw-foreach")
    yield timed(*one, attn="flash")
    for ac in ("none", "full"):  # compilers are slow: last
        yield timed(*one, ac, kernels="compiled")
    yield timed("llama-60m", 8, 512, kernels="compiled")


NOISE = 8  # rows that a second run times again


def config_of(case):
    """The configuration of a case's model: a sample model's, cut to its layers, or the one stored beside the case."""
    sample = ROOT / "sample_models" / case["model"] / "config.json"
    if not sample.exists():
        models = json.loads((ORACLE / "emulated_peaks.json").read_text())["models"]
        return models[case["model"]]
    config = json.loads(sample.read_text())
    return config | ({"num_hidden_layers": case["layers"]} if "layers" in case else {})
