#!/usr/bin/env python3
"""Real PyTorch's snapshots against its own counters: peaks to the byte, categories within 1 %.

Needs torch, transformers and a CUDA device, a real or an emulated one:

    tests/snapshot/check_pytorch.py --program build/release/ac-advisor [--model FOLDER]

Each way of recording is a process of its own, for the history is the process's.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

WAYS = ("python", "cpp", "none", "late", "ring", "checkpoint", "foreach")


def rounded(size):
    return (size + 511) // 512 * 512


def train(way, model_folder, folder):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

    torch.backends.cuda.enable_cudnn_sdp(False)
    options = {"stacks": "all" if way == "cpp" else "python"}
    if way == "none":
        options = {"context": None}
    if way == "ring":
        options["max_entries"] = 3000
    if way != "late":
        torch.cuda.memory._record_memory_history(**options)
    config = (AutoConfig.from_pretrained(model_folder) if model_folder else LlamaConfig(
        hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4,
        vocab_size=2000, tie_word_embeddings=False))
    config.use_cache = False
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.train()
    if way == "checkpoint":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    fused = {"foreach": True} if way == "foreach" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **fused)
    for step in range(4):
        if way == "late" and step == 2:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.memory._record_memory_history(**options)
        ids = torch.zeros(2, 128, dtype=torch.long).to("cuda")
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(os.path.join(folder, "s.pickle"))
    states = [v for s in optimizer.state.values() for v in s.values()
              if torch.is_tensor(v) and v.is_cuda]
    told = {"peak_allocated_bytes": torch.cuda.max_memory_allocated(),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
            "parameters": sum(rounded(p.numel() * p.element_size()) for p in model.parameters()),
            "optimizer_states": sum(rounded(v.numel() * v.element_size()) for v in states)}
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
    memory = json.loads(text)["memory"]
    found = {**memory["at_peak"], **memory}
    bad = [k for k in ("peak_allocated_bytes", "peak_reserved_bytes") if found[k] != told[k]]
    bad += [k for k in ("parameters", "optimizer_states") if abs(found[k] / told[k] - 1) > 0.01]
    print(f"{way:11} peak {told['peak_allocated_bytes']:,} B:",
          "as told" if not bad else {k: (found[k], told[k]) for k in bad})
    return not bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/release/ac-advisor")
    parser.add_argument("--model", default="")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--folder")
    a = parser.parse_args()
    if a.way:
        train(a.way, a.model, a.folder)
    sys.exit(0 if all([check(way, a.program, a.model) for way in WAYS]) else 1)


if __name__ == "__main__":
    main()
