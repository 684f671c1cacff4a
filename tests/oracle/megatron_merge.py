"""Joins what megatron_peaks.py wrote, a file a rank, into megatron_peaks.json, in the planner's own words.

    python megatron_merge.py megatron_peaks.json FILE...

Leaves out what the planner has no option for: fusions that are off, a model of one rank whose optimizer
is distributed.
"""

import json
import sys

import megatron_cases

SOURCE = "PyTorch 2.11.0+cu130, megatron-core 0.16.1, transformer_engine {}, emulated h100-80gb"
ATTENTION = {"unfused": "eager", "flash": "flash", "fused": "cudnn"}
NAMES = {"gated_linear_unit": "swiglu", "untied": "untie_embeddings_and_output_weights", "num_moe_experts": "num_experts"}
NOT_PLANNED = ("bias_dropout_fusion", "masked_softmax_fusion")


def model(name):
    """Megatron-LM's arguments, or the model's configuration on the Hub."""
    values = megatron_cases.config_of(name)
    of_hub = megatron_cases.ON_THE_HUB.get(name.removeprefix("hub_").removesuffix("_4layers"))
    return of_hub or {"model_type": "megatron"} | {NAMES.get(key, key): value for key, value in values.items()}


def replicas(entry):
    return entry["world"] // (entry.get("tp", 1) * entry.get("pp", 1))


def experts(entry):
    return "num_moe_experts" in megatron_cases.config_of(entry["model"])


def is_planned(entry):
    sharded_alone = entry.get("use_distributed_optimizer") and replicas(entry) == 1
    # Experts have no biases: their activations are not fused with them. Determinism changes what their tokens go back by.
    of_dense = not experts(entry) and ("bias_activation_fusion" in entry or "deterministic" in entry)
    return not sharded_alone and not of_dense and not any(key in entry for key in NOT_PLANNED)


def options(entry):
    values = {"model": entry["model"], "framework": "megatron", "transformer_impl": entry["impl"],
              "batch": entry["batch"], "seq": entry["seq"], "grad_accum": entry["micro_batches"],
              "attn": ATTENTION[entry.get("attn", "unfused")], "clip_grad": "1", "cublas_workspace": ":4096:8"}
    values["gradient_accumulation_fusion"] = entry.get("gradient_fusion", False)
    if "fp8" in entry:
        values["fp8"] = entry["fp8"]
    if entry["world"] > 1:
        values["world"] = entry["world"]
    if entry.get("tp", 1) > 1:
        values |= {"tp": entry["tp"], "sp": entry.get("sequence_parallel", False)}
    if entry.get("cp", 1) > 1:
        values["cp"] = entry["cp"]
    if entry.get("ep", 1) > 1:
        values["ep"] = entry["ep"]
    if entry.get("etp"):
        values["etp"] = entry["etp"]
    # Of dense models it changes FlashAttention's backward: said of those that were measured since it is an option of theirs.
    later = "gradient_fusion" in entry and entry.get("attn") == "flash"
    if (experts(entry) or later) and entry.get("deterministic", True):
        values["deterministic"] = True
    if entry.get("optimizer_instances", 1) > 1:
        values["optimizer_instances"] = entry["optimizer_instances"]
    if replicas(entry) > 1:
        values["shard"] = "zero1" if entry.get("use_distributed_optimizer") else "ddp"
    if entry.get("pp", 1) > 1:
        values |= {"pp": entry["pp"], "pp_rank": entry.get("pp_rank", 0)}
    if layers := entry.get("layers_per_virtual_stage"):
        chunks = megatron_cases.config_of(entry["model"])["num_layers"] // entry["pp"] // layers
        values["pp_schedule"] = f"interleaved:{chunks}"
    if entry.get("cross_entropy_fusion"):
        values["loss"] = "ce-compiled"
    recompute = entry.get("recompute")
    if recompute:
        values["ac"] = {"full:1": "full", "full:2": "grouped:2", "selective": "attention"}.get(recompute, recompute)
    return values


def main(output, files):
    cases = []
    for name in files:
        with open(name) as file:
            found = json.load(file)
        cases += [entry | {"case": options(entry["case"])} for entry in found["cases"] if is_planned(entry["case"])]
    # Alike in the planner's words: gradients and gathers that overlap or do not.
    cases = list({json.dumps(entry["case"]): entry for entry in cases}.values())
    models = {name: model(name) for name in sorted({entry["case"]["model"] for entry in cases})}
    with open(output, "w") as file:
        later = any("fp8" in entry["case"] or entry["case"]["model"].startswith("hub_") for entry in cases)
        engine = "2.14.0" if later else "2.11.0"
        head = {"source": SOURCE.format(engine), "models": models}
        file.write(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
