#!/usr/bin/env python3
"""Real PyTorch's snapshots against its own counters: peaks to the byte, each step's too, categories within 1 %.

Needs torch, transformers and a CUDA device, a real or an emulated one:

    tests/snapshot/check_pytorch.py --program build/release/ac-advisor [--model FOLDER]
    ac-advisor dryrun --world 4 -- python tests/snapshot/check_pytorch.py ...    # DistributedDataParallel's

Each way of recording is a process of its own, for the history is the process's.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

WAYS = ("python", "cpp", "none", "late", "ring", "checkpoint", "foreach", "own", "own-late", "lora", "lora-late", "qlora",
        "qlora-late")
OF_RANKS = ("ddp", "ddp-late", "views", "views-late")  # gradients as copies in buckets, or as views of them


def rounded(size):
    return (size + 511) // 512 * 512


def own_adamw():
    """As people write it: each step makes the moments anew."""
    import torch

    class OwnAdamW(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 1e-3})

        @torch.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                state["m"] = 0.9 * state["m"] + 0.1 * p.grad
                state["v"] = 0.999 * state["v"] + 0.001 * p.grad * p.grad
                p -= self.param_groups[0]["lr"] * state["m"] / (state["v"].sqrt() + 1e-8)

    return OwnAdamW


def adapted(model, way):
    """With LoRA, over a base in 4 bits where the way says so."""
    import bitsandbytes
    import peft
    import torch

    if way == "qlora":
        for name, child in list(model.named_modules()):
            if isinstance(child, torch.nn.Linear) and "lm_head" not in name:
                parent, _, leaf = name.rpartition(".")
                small = bitsandbytes.nn.Linear4bit(child.in_features, child.out_features, bias=False,
                                                   compute_dtype=torch.bfloat16, quant_type="nf4")
                small.weight = bitsandbytes.nn.Params4bit(child.weight.data.cpu(), requires_grad=False,
                                                          quant_type="nf4", module=small)
                setattr(model.get_submodule(parent), leaf, small.cuda())
    return peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))


def tensors_of(parameter):
    """Its own, and of a base in 4 bits what it is dequantized by."""
    yield parameter
    state = getattr(parameter, "quant_state", None)
    while state is not None:
        offset = getattr(state, "offset", None)
        yield from (t for t in (state.absmax, state.code, offset) if t is not None and t.is_cuda)
        state = getattr(state, "state2", None)


def train(way, model_folder, folder):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

    torch.backends.cuda.enable_cudnn_sdp(False)
    options = {"stacks": "all" if way == "cpp" else "python"}
    way, late, _ = way.partition("-") if way != "late" else ("python", "late", "")
    if way == "none":
        options = {"context": None}
    if way == "ring":
        options["max_entries"] = 3000
    if not late:
        torch.cuda.memory._record_memory_history(**options)
    config = (AutoConfig.from_pretrained(model_folder) if model_folder else LlamaConfig(
        hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4,
        vocab_size=2000, tie_word_embeddings=False))
    config.use_cache = False
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    if way in ("lora", "qlora"):
        model = adapted(model, way)
    model.train()
    if way == "checkpoint":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    fused = {"foreach": True} if way == "foreach" else {"fused": True}
    forward = model
    if way in ("ddp", "views"):
        torch.distributed.init_process_group("nccl")
        forward = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=way == "views")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = own_adamw()(trained) if way == "own" else torch.optim.AdamW(trained, **fused)
    peaks = []  # of the steps that were recorded
    for step in range(4):
        if late and step == 2:
            peaks.clear()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.memory._record_memory_history(**options)
        ids = torch.zeros(2, 128, dtype=torch.long).to("cuda")
        out = forward(input_ids=ids, labels=ids)
        out.loss.backward()
        optimizer.step()
        peaks.append(torch.cuda.max_memory_allocated())
        reserved = torch.cuda.max_memory_reserved()  # which only grows here
        torch.cuda.reset_peak_memory_stats()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(os.path.join(folder, "s.pickle"))
    states = [v for s in optimizer.state.values() for v in s.values()
              if torch.is_tensor(v) and v.is_cuda]
    told = {"peak_allocated_bytes": max(peaks), "steps": peaks,
            "peak_reserved_bytes": reserved,
            "parameters": sum(rounded(t.numel() * t.element_size())
                              for p in model.parameters() for t in tensors_of(p)),
            "optimizer_states": sum(rounded(v.numel() * v.element_size()) for v in states)}
    if way == "ddp" and not late:  # late one bucket may be of a parameter's size; views peak with both buckets
        told["gradients"] = told["parameters"]
    with open(os.path.join(folder, "told.json"), "w") as file:
        json.dump(told, file)
    sys.stdout.flush()
    os._exit(0)


def check(way, program, model_folder):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--way", way, "--folder", folder]
        subprocess.run(command + (["--model", model_folder] if model_folder else []), check=True)
        with open(os.path.join(folder, "told.json")) as file:
            told = json.load(file)
        plain = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        text = subprocess.run(
            [program, "snapshot", os.path.join(folder, "s.pickle"), "--format", "json"],
            check=True, capture_output=True, env=plain).stdout
    snapshot, memory = json.loads(text)["snapshot"], json.loads(text)["memory"]
    found = {**memory["at_peak"], **memory}
    ring = way == "ring"  # which has lost the first of them
    found["steps"] = [step["peak_allocated_bytes"] for step in snapshot["steps"] if step["complete"] or not ring]
    if ring:
        told["steps"] = told["steps"][-len(found["steps"]):]
    bad = [k for k in ("peak_allocated_bytes", "peak_reserved_bytes", "steps") if found[k] != told[k]]
    bad += [k for k in ("parameters", "optimizer_states", "gradients")
            if k in told and abs(found[k] / told[k] - 1) > 0.01]
    print(f"{way:11} peak {told['peak_allocated_bytes']:,} B:",
          "as told" if not bad else {k: (found[k], told[k]) for k in bad})
    return not bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/release/ac-advisor")
    parser.add_argument("--model", default="")
    parser.add_argument("--way", choices=WAYS + OF_RANKS)
    parser.add_argument("--folder")
    a = parser.parse_args()
    if a.way:
        train(a.way, a.model, a.folder)
    ways = OF_RANKS if int(os.environ.get("WORLD_SIZE", "1")) > 1 else WAYS
    sys.exit(0 if all([check(way, a.program, a.model) for way in ways]) else 1)


if __name__ == "__main__":
    main()
