"""Writes offload_peaks.json: peaks of steps under TRL's OffloadActivations, by real PyTorch on the emulated device.

    ac-advisor dryrun --gpu h100-80gb --output /dev/null -- python offload_peaks.py OUTPUT.json [--only TEXT]

A case is a model of loop_cases.MODELS and the planner's own options, as in loop_peaks.py. Of --framework trl the
step is SFTTrainer's, with activation_offloading=True; else the loop of loop_step.py, forward and backward inside of
get_act_offloading_ctx_manager's context, as SFTTrainer.training_step has them.
"""

import sys

import loop_peaks
import trl
from loop_cases import MODELS, of

# Small vocabularies: blocks, not the loss, make the peak.
MODELS["narrow"] = of("llama", 1024, 3072, 8, 16, 16, 64, 2048, False)
MODELS["shared"] = of("qwen3", 1024, 3072, 8, 16, 8, 128, 2048, True)


def cases():
    for name in ("narrow", "shared"):
        for ac in ("none", "full"):
            yield name, f"--attn flash --batch 4 --seq 2048 --ac {ac} --offload activations"
        yield name, "--attn flash --batch 3 --seq 1000 --offload activations"
    for name in ("llama", "untied", "mistral", "qwen2", "qwen3"):
        for ac in ("none", "full"):
            yield name, f"--attn flash --batch 2 --seq 2048 --ac {ac} --offload activations"
        yield name, "--attn flash --batch 3 --seq 1000 --ac full --offload activations"
    for name in ("llama", "untied", "phi3", "olmo2", "granite", "smollm3"):
        yield name, "--attn flash --batch 2 --seq 1024 --ac full --no-hold-output --offload activations"
    for name in ("llama", "qwen2"):
        yield name, "--attn flash --batch 1 --seq 777 --ac full --offload activations"
        yield name, "--attn flash --batch 2 --seq 1024 --grad-accum 2 --ac full --offload activations"
    for name in ("llama", "untied", "qwen2", "qwen3"):
        yield name, "--framework trl --attn flash --batch 2 --seq 1024 --offload activations"
        yield name, "--framework trl --attn flash --batch 2 --seq 1024 --param-dtype bf16 --offload activations"
    yield from with_adapters()


def with_adapters():
    """Where blocks are the peak, where the loss is. The quantized ones leave memory behind: a process each (--only)."""
    trl_step, lora = "--framework trl --attn flash", "--offload activations --lora 16"
    everywhere = f"{lora} --lora-targets all-linear"
    for name in ("narrow", "shared"):
        yield name, f"{trl_step} --batch 4 --seq 2048 {lora}"
        yield name, f"{trl_step} --batch 4 --seq 2048 {everywhere}"
        yield name, f"{trl_step} --batch 4 --seq 2048 {everywhere} --param-dtype bf16"
        yield name, f"{trl_step} --batch 3 --seq 1000 {everywhere}"
        yield name, f"{trl_step} --batch 2 --seq 1024 --grad-accum 2 {everywhere}"
    for name in ("llama", "mistral", "qwen2", "phi3"):
        yield name, f"{trl_step} --batch 2 --seq 1024 {everywhere}"
        yield name, f"{trl_step} --batch 2 --seq 1024 {everywhere} --param-dtype bf16"
    for name in ("narrow", "shared"):
        yield name, f"{trl_step} --batch 4 --seq 2048 {everywhere} --quantize nf4"
    for name in ("llama", "qwen2"):
        yield name, f"{trl_step} --batch 2 --seq 1024 {everywhere} --quantize nf4"


if __name__ == "__main__":
    sys.exit(loop_peaks.main(cases(), __doc__, f"trl {trl.__version__}, "))
