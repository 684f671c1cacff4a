"""Writes zero_peaks.json: peaks of DeepSpeed's ZeRO 1 and 2 on the emulated device.

    python zero_peaks.py --list
    ac-advisor dryrun --world N --rank R --output /dev/null -- python zero_peaks.py zero_peaks.json --case K

A case is a model of MODELS and the planner's own options; each runs in a process of its own, as an engine
leaves hooks behind. --list prints world, rank and number of each. The rank is the one whose partition
meets the parameters with the most elements: the one that is planned.
"""

import argparse
import json
import os
import sys

import torch

from loop_cases import MODELS
from loop_step import parse



def cases():
    for stage in ("zero1", "zero2"):
        for world in (2, 8, 64):
            for ac in ("none", "full"):
                yield "llama", f"--world {world} --shard {stage} --batch 1 --seq 2048 --ac {ac}"
        for model in ("untied", "mistral", "qwen2", "qwen3", "gemma", "phi3", "olmo2"):
            yield model, f"--world 8 --shard {stage} --batch 2 --seq 2048"
        yield "llama", f"--world 8 --shard {stage} --batch 4 --seq 1000 --ac full"
        for accum in (2, 3):
            for model in ("llama", "untied"):
                yield model, f"--world 8 --shard {stage} --batch 1 --seq 2048 --ac full --grad-accum {accum}"
    yield "untied", "--world 4 --shard zero2 --batch 8 --seq 2048"
    yield "qwen3", "--world 16 --shard zero2 --batch 2 --seq 4096 --ac full --grad-accum 4"
    for stage in ("zero1", "zero2"):
        yield "mistral", f"--world 8 --shard {stage} --batch 1 --seq 2048 --ac full --clip-grad 1.0"


CASES = [(model, words + " --no-hold-output --attn flash") for model, words in cases()]


def shapes_of(model):
    """Elements of each parameter, in the order of parameters()."""
    import transformers

    config = transformers.AutoConfig.for_model(**MODELS[model])
    with torch.device("meta"):
        return [p.numel() for p in transformers.AutoModelForCausalLM.from_config(config).parameters()]


def planned_rank(model, world):
    sizes = shapes_of(model)
    part = -(-sum(sizes) // (2 * world)) * 2
    whole, start = [0] * world, 0
    for size in sizes:
        for rank in range(start // part, (start + size - 1) // part + 1):
            whole[rank] += size
        start += size
    return whole.index(max(whole))


def measure(model, words):
    """Figures of the third step; reserved memory is the highest of all."""
    import deepspeed
    import transformers

    options = parse(words)
    config = transformers.AutoConfig.for_model(**MODELS[model])
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):
        network = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).train()
    if options.ac == "full":
        network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    settings = {"train_micro_batch_size_per_gpu": options.batch, "gradient_accumulation_steps": options.grad_accum,
                "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True, "gradient_clipping": options.clip_grad,
                "zero_optimization": {"stage": int(options.shard[-1])}}
    engine, sharded, _, _ = deepspeed.initialize(model=network, optimizer=optimizer, config=settings)
    del network, optimizer
    ids = torch.zeros(options.batch, options.seq, dtype=torch.int64, device="cuda")
    labels = ids.clone()
    reserved, peaks = 0, {}

    def take(phase):
        peaks[phase] = max(peaks.get(phase, 0), torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()

    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        peaks.clear()
        for _ in range(options.grad_accum):
            loss = engine(input_ids=ids, labels=labels, use_cache=False).loss
            take("forward")
            engine.backward(loss)
            take("backward")
            boundary = engine.is_gradient_accumulation_boundary()
            engine.step()
            take("optimizer" if boundary else "backward")
        reserved = max(reserved, torch.cuda.max_memory_reserved())
    states = sum(v.numel() for state in sharded.optimizer.state.values() for v in state.values())
    if states < 2:
        raise SystemExit("the optimizer never stepped")
    return {"peak_allocated": max(peaks.values()), "peak_reserved": reserved, "peak_by_phase": dict(peaks)}


def write(path, done):
    with open(path, "w") as file:
        file.write('{"source": "DeepSpeed 0.19.8, PyTorch ' + torch.__version__ + ', emulated H100, flash attention",\n')
        file.write(' "models": {\n' + ",\n".join(f"{json.dumps(n)}: {json.dumps(m)}" for n, m in MODELS.items()))
        file.write('},\n "cases": [\n' + ",\n".join(json.dumps(c) for c in done) + "\n]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--case", type=int)
    arguments = parser.parse_args()
    if arguments.list:
        for number, (model, words) in enumerate(CASES):
            world = parse(words).world
            print(world, planned_rank(model, world), number)
        return
    model, words = CASES[arguments.case]
    figures = measure(model, words)
    kept = {}
    if os.path.exists(arguments.output):
        with open(arguments.output) as file:
            kept = {(c["model"], c["options"]): c for c in json.load(file)["cases"]}
    kept[model, words] = {"model": model, "options": words} | figures
    write(arguments.output, [kept[case] for case in CASES if case in kept])
    print(model, words, figures, flush=True)


if __name__ == "__main__":
    sys.exit(main())
