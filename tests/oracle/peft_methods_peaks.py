"""Peaks and launches of PEFT's methods beside LoRA, in emulated_peaks.py's loop: (IA)^3, LN tuning, learned prompts and
prefixes, LoHa, LoKr, VeRA and others, in fp32 over a frozen base in bf16.

    ac-advisor dryrun --output /dev/null -- python peft_methods_peaks.py peft_methods_peaks.json

As emulated_peaks.py; `adapter` is the planner's own option, "trainable" PEFT's count.
"""

import sys

import peft
from peft import get_peft_model

import emulated_peaks
import training_step

FAMILIES = ("llama1b_4layers", "mistral7b_4layers", "qwen2_05b_4layers", "gemma_7b_4layers", "phi2_4layers")
WITHOUT_BIASES = ("llama1b_4layers", "mistral7b_4layers", "gemma_7b_4layers")
SIZED = {"prompt-tuning": 20, "p-tuning": 20, "prefix-tuning": 30, "loha": 8, "lokr": 8, "vera": 256, "miss": 64,
         "oft": 32, "road": 1, "adalora": 12, "trainable-tokens": 64,
         "glora": 8, "delora": 32}


def shape(model, adapter, **more):
    return {"model": model, "batch": 2, "seq": 1024, "ac": "none", "loss": "ce", "attn": "auto", "adapter": adapter} | more


def methods():
    yield from ("ia3", "ln-tuning")
    for name, size in SIZED.items():
        yield f"{name}:{size}"


def cases():
    for adapter in methods():
        for model in WITHOUT_BIASES if adapter.startswith("glora") else FAMILIES:
            named = {"lora_targets": "q_proj,v_proj"} if adapter.startswith("adalora") else {}  # PEFT has no others
            yield shape(model, adapter, **named)
            if not adapter.startswith("prefix"):  # a checkpoint's second forward adds to the cache of keys
                yield shape(model, adapter, ac="full", **named)
        yield shape("llama1b_4layers", adapter, attn="flash")
        yield shape("llama1b_4layers", adapter, batch=3, seq=1000, optimizer="adamw-foreach")
        yield shape("llama1b_4layers", adapter, grad_accum=2, hold_output=False)
    for adapter in ("ia3", "loha:32", "lokr:32:4", "vera:64", "miss:48", "miss:64:64", "oft:64", "road:2", "adalora:8",
                    "delora:8"):
        for ac in ("none", "full"):
            yield shape("llama1b_4layers", adapter, ac=ac, lora_targets="all-linear")
        yield shape("qwen2_05b_4layers", adapter, batch=1, lora_targets="all-linear")
    for model in ("gemma3_1b_6layers", "pythia_14b_4layers", "gpt2_12layers", "falcon_7b_4layers"):
        for adapter in ("ia3", "prompt-tuning:50"):
            yield shape(model, adapter)


def config_of(adapter, entry):
    """PEFT's defaults but for the size."""
    name, _, size = adapter.partition(":")
    targets = entry.get("lora_targets")
    linear = {"target_modules": targets if targets == "all-linear" else targets and targets.split(",")}
    given = {"task_type": "CAUSAL_LM"}
    if name == "ia3":
        return peft.IA3Config(**given, **linear)
    if name == "ln-tuning":
        return peft.LNTuningConfig(**given)
    if name == "loha":
        return peft.LoHaConfig(**given, **linear, r=int(size))
    if name == "lokr":
        rank, _, factor = size.partition(":")
        return peft.LoKrConfig(**given, **linear, r=int(rank), decompose_factor=int(factor or -1))
    if name == "vera":
        return peft.VeraConfig(**given, **linear, r=int(size))
    if name == "miss":
        rank, _, mini = size.partition(":")
        return peft.MissConfig(**given, **linear, r=int(rank), **({"init_weights": "mini", "mini_r": int(mini)} if mini else {}))
    if name == "oft":
        return peft.OFTConfig(**given, **linear, oft_block_size=int(size))
    if name == "road":
        return peft.RoadConfig(**given, **linear, variant=f"road_{size}")
    if name == "adalora":
        return peft.AdaLoraConfig(**given, **linear, init_r=int(size), total_step=1000)
    if name == "glora":
        return peft.GloraConfig(**given, **linear, r=int(size))
    if name == "delora":
        return peft.DeloraConfig(**given, **linear, r=int(size))
    if name == "trainable-tokens":
        return peft.TrainableTokensConfig(**given, token_indices=list(range(int(size))))
    kinds = {"prompt-tuning": peft.PromptTuningConfig, "p-tuning": peft.PromptEncoderConfig,
             "prefix-tuning": peft.PrefixTuningConfig}
    return kinds[name](**given, num_virtual_tokens=int(size))


class Step(training_step.Step):
    """The whole of PEFT's model; its head is the base's."""

    def __init__(self, model, entry, on_loss):
        super().__init__(model.get_base_model(), "hf", on_loss)
        self.m = model


def build(entry, on_loss):
    model = emulated_peaks.model_of(entry)
    emulated_peaks.on_device(model)
    if entry["ac"] != "none":
        model.enable_input_require_grads()
    model = get_peft_model(model, config_of(entry["adapter"], entry))
    trainable.append(model.get_nb_trainable_parameters()[0])
    training_step.checkpoint_blocks(model.get_base_model(), emulated_peaks.ac_of(entry))
    step = Step(model, entry, on_loss)
    return step, step


def measure(entry):
    figures = emulated_peaks.measure(entry, build)
    return figures | {"trainable": trainable.pop()}


trainable = []

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
