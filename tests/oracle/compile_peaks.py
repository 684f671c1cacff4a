"""Allocated and reserved peaks and launches of training steps that torch.compile has made, on the emulated H100.

    ac-advisor dryrun [--world N] --output /dev/null -- python compile_peaks.py OUTPUT.json [--only LABEL]

The step is emulated_peaks.py's; each block, with its checkpoint around it, is compiled by itself with full graphs, and
FSDP2's hooks are around that (torchtitan: models/llama3/infra/parallelize.py). `compile_unit: model` compiles the model
with its loss as one graph, checkpoints inside it, as `torch.compile(model)` does; its loss is a part of its forward.
`block_modes` is what `--ac budget:SIZE` chose for each block: a memory budget is then set while its own backend compiles.
Inductor generates its kernels and Triton assembles them; their launches are counted, nothing runs. Benchmarking is off,
so no choice depends on a time.
"""

import contextlib
import sys

import torch
import torch._functorch.config
import torch._inductor.config
from torch._inductor import cudagraph_trees
from torch._inductor.compile_fx import compile_fx
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import emulated_peaks
import training_step
from emulated_cases import case

FSDP8 = {"shard": "fsdp2", "world": 8}
BUDGETS = (0.9, 0.7, 0.5, 0.3, 0.1, 0.0)
MODELS = ("smollm17b_untied_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers", "gemma_7b_4layers",
          "smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers", "phi3_mini_4layers")
# Blocks of other kinds than Llama's: fused projections, LayerNorm, plain MLPs, side by side, neighbours rotated.
OTHERS = ("phi3_mini_4layers", "pythia_14b_4layers", "stablelm2_16b_4layers", "aya_8b_4layers", "glm_9b_4layers",
          "minitron_4b_4layers", "gpt2_12layers_undropped", "opt_13b_4layers_undropped", "phi2_4layers_undropped")
# Of those, and of models that scale their embeddings or logits, what is compiled whole.
OTHER_WHOLE = ("gemma_7b_4layers", "granite31_8b_4layers", "phi3_mini_4layers", "minitron_4b_4layers", "pythia_14b_4layers")

EXPERTS = ("small_mixtral", "mixtral8x7b_2layers", "qwen15_moe_27b_4layers", "qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers",
           "glm45_air_3layers")


def all_cases():
    for ac in ("none", "full", "selective"):
        yield case("llama1b", 8, 2048, ac, kernels="compiled")
        yield case("llama1b", 8, 2048, ac, kernels="compiled", **FSDP8)
    for budget in BUDGETS:
        yield case("llama1b", 8, 2048, f"memory-budget:{budget}", kernels="compiled")
    for ac in ("none", "full"):
        for shard in ({}, {"shard": "ddp", "world": 8}, {"grad_accum": 2}):
            yield case("llama1b_4layers", 2, 2048, ac, kernels="compiled", **shard)
        yield case("llama1b_4layers", 2, 2048, ac, kernels="compiled", shard="hsdp:4", world=8)
    for shard in ({}, FSDP8, {"grad_accum": 2}):
        yield case("llama1b_4layers", 2, 2048, "every:2", kernels="compiled", **shard)
    yield case("qwen3_06b_4layers", 2, 2048, "every:3", kernels="compiled")
    yield case("llama1b_4layers", 3, 1000, "none", kernels="compiled")
    for kernels in ("eager", "compiled"):
        for ac in ("none", "full", "selective"):
            for shard in ({}, FSDP8):
                yield case("llama1b_4layers", 2, 2048, ac, "ce-compiled", kernels=kernels, hold_output=False, **shard)
    yield case("llama1b_4layers", 8, 2048, "full", "ce-compiled", kernels="compiled", grad_accum=2)
    yield case("llama1b_4layers", 3, 1000, "none", "ce-compiled", kernels="compiled", hold_output=False)
    yield case("llama1b_4layers", 2, 2048, "none", "ce-compiled", kernels="eager", shard="ddp", world=8)
    for model in ("smollm17b_untied_4layers", "gemma2_2b_4layers", "qwen3_06b_4layers"):
        yield case(model, 2, 2048, "full", "ce-compiled", kernels="eager", hold_output=False)
    yield case("llama1b_4layers", 2, 2048, "none", attn="flash", kernels="compiled")
    for model in MODELS:
        for ac in ("none", "full"):
            yield case(model, 2, 2048, ac, kernels="compiled")
    for model in ("small_llama", "tiny_llama"):
        yield case(model, 2, 512, "none", kernels="compiled")
    for size, modes in (("57GB", "memory-budget:0.66 " + 15 * "none "),
                        ("46GB", 6 * "full " + 10 * "memory-budget:0.66 "),
                        ("43GB", 5 * "full " + 11 * "selective "),
                        ("40GB", 16 * "memory-budget:0.09 ")):
        yield case("llama1b", 8, 2048, f"budget:{size}", kernels="compiled", block_modes=modes.strip())
    yield from other_blocks()
    yield from under_autocast()
    yield from further_families()
    yield from whole_models()


def other_blocks():
    for model in OTHERS:
        seq = 1024 if model.startswith("gpt2") else 2048
        for ac in ("none", "full", "memory-budget:0.5"):
            if model not in MODELS or ac == "memory-budget:0.5":
                yield case(model, 2, seq, ac, kernels="compiled")
        yield case(model, 3, 1000, "none", kernels="compiled")
        yield case(model, 2, seq, "none", kernels="compiled", **FSDP8)
    for model in ("pythia_14b_4layers", "qwen3_06b_4layers"):
        yield case(model, 2, 2048, "full", kernels="compiled", shard="ddp", world=8)
    for ac in ("none", "memory-budget:0.5"):  # with dropout
        yield case("opt_13b_4layers", 2, 2048, ac, kernels="compiled")
    yield case("opt_13b_4layers", 3, 1000, "none", kernels="compiled")
    for model, batch, seq in (("gemma3_1b_6layers", 2, 2048), ("olmo3_7b_4layers", 1, 4096)):  # with windows' masks
        for ac in ("none", "full", "memory-budget:0.5"):
            yield case(model, batch, seq, ac, kernels="compiled")
        yield case(model, batch, seq, "none", kernels="compiled", **FSDP8)
    yield case("gemma3_1b_6layers", 3, 1000, "none", kernels="compiled")
    for model in OTHERS[:4]:
        for ac in ("selective", "memory-budget:0.7", "memory-budget:0.3", "memory-budget:0.1"):
            yield case(model, 2, 2048, ac, kernels="compiled")
        yield case(model, 2, 2048, "full", kernels="compiled", **FSDP8)


def under_autocast():
    """torch.autocast around the forward and its loss, fp32 parameters."""
    wide = {"kernels": "compiled", "param_dtype": "fp32", "autocast": "bf16"}
    for ac in ("none", "full", "selective", "memory-budget:0.5"):
        yield case("llama1b_4layers", 2, 2048, ac, **wide)
    yield case("llama1b_4layers", 3, 1000, "none", **wide)
    for model in ("pythia_14b_4layers", "qwen3_06b_4layers"):
        for ac in ("none", "full"):
            yield case(model, 2, 2048, ac, **wide)


def further_families():
    for model in ("glm4_9b_4layers", "ministral3_8b_4layers", "command_r7b_4layers", "starcoder2_3b_4layers_undropped",
                  "minicpm_2b_4layers", "internlm25_7b_4layers", "baichuan2_7b_4layers"):
        for ac in ("none", "full", "memory-budget:0.5"):
            yield case(model, 2, 2048, ac, kernels="compiled")
        yield case(model, 3, 1000, "none", kernels="compiled")
    for model in EXPERTS:
        for ac in ("none", "full", "memory-budget:0.5"):
            yield case(model, 2, 2048, ac, kernels="compiled")
        yield case(model, 3, 1000, "none", kernels="compiled")
    for model in ("small_mixtral", "olmoe_1b_7b_4layers"):
        for ac in ("selective", "memory-budget:0.7", "memory-budget:0.1"):
            yield case(model, 2, 2048, ac, kernels="compiled")
        yield case(model, 2, 2048, "none", kernels="compiled", grad_accum=2)
        yield case(model, 2, 2048, "full", kernels="compiled", **FSDP8)
    yield case("tiny_mixtral", 2, 128, "none", kernels="compiled")


def whole_models():
    whole = {"kernels": "compiled", "compile_unit": "model"}
    for ac in ("none", "full", *(f"memory-budget:{b}" for b in (0.7, 0.5, 0.0))):
        yield case("llama1b", 8, 2048, ac, **whole)
    for ac in ("none", "full", "every:2"):
        yield case("llama1b_4layers", 2, 2048, ac, **whole)
    for model in ("smollm17b_untied_4layers", "qwen2_05b_4layers", "qwen3_06b_4layers", "mistral7b_4layers"):
        for ac in ("none", "full"):
            yield case(model, 2, 2048, ac, **whole)
    for options in ({"grad_accum": 2}, {"hold_output": False}, {"attn": "flash"}):
        yield case("llama1b_4layers", 2, 2048, "none", **options, **whole)
    yield case("llama1b_4layers", 3, 1000, "none", **whole)
    yield case("small_llama", 2, 512, "none", **whole)
    for budget in (0.9, 0.3, 0.1):
        yield case("llama1b", 8, 2048, f"memory-budget:{budget}", **whole)
    yield case("llama1b_4layers", 1, 2048, "none", **whole)
    yield case("llama1b_4layers", 1, 1000, "full", **whole)
    for model in ("qwen2_05b_4layers", "mistral7b_4layers", "qwen3_06b_4layers"):
        for budget in (0.7, 0.5, 0.2):
            yield case(model, 2, 2048, f"memory-budget:{budget}", **whole)
    for model in ("smollm3_3b_4layers", "olmo2_7b_4layers"):
        for ac in ("none", "full", "memory-budget:0.5"):
            yield case(model, 2, 2048, ac, **whole)
    yield case("qwen3_06b_4layers", 2, 2048, "every:3", **whole)
    yield case("mistral7b_4layers", 1, 1000, "every:2", grad_accum=2, **whole)
    for model, batch, seq in (("llama1b_4layers", 2, 2048), ("qwen3_06b_4layers", 2, 2048), ("mistral7b_4layers", 1, 1000),
                              ("olmo2_7b_4layers", 2, 2048)):
        yield case(model, batch, seq, "selective", **whole)
    for model in OTHER_WHOLE:
        for ac in ("none", "full", "memory-budget:0.5"):
            yield case(model, 2, 2048, ac, **whole)
    for ac in ("none", "full"):
        yield case("llama1b_4layers", 2, 2048, ac, param_dtype="fp32", autocast="bf16", **whole)
    graphs = whole | {"cuda_graph": "segments"}
    for ac in ("none", "full", "memory-budget:0.5"):
        yield case("llama1b_4layers", 2, 2048, ac, **graphs)
    yield case("llama1b_4layers", 3, 1000, "none", **graphs)
    for model in ("qwen3_06b_4layers", "mistral7b_4layers", "smollm17b_untied_4layers"):
        yield case(model, 2, 2048, "none", **graphs)
    yield case("small_llama", 2, 512, "none", **graphs)
    yield case("llama1b_4layers", 2, 2048, "none", hold_output=False, **graphs)


def with_budget(share):
    """Inductor with that memory budget, as a backend: blocks of another one share no code."""
    def backend(graph, inputs):
        with torch._functorch.config.patch(activation_memory_budget=share):
            return compile_fx(graph, inputs)
    return backend


def compiled_blocks(model, modes=()):
    """Each of a model's blocks, compiled in its place; in the mode of each, where there are any."""
    decoder, name = training_step.stack_of(model)
    blocks = list(getattr(decoder, name))
    shares = {mode: with_budget(float(mode.removeprefix("memory-budget:"))) for mode in modes if ":" in mode}
    for i, mode in enumerate(modes):
        if mode in ("full", "selective"):
            policy = {"context_fn": training_step.torchtitan_policy} if mode == "selective" else {}
            blocks[i] = checkpoint_wrapper(blocks[i], preserve_rng_state=False, **policy)
    compiled = [torch.compile(block, fullgraph=True, backend=shares.get(mode, "inductor"))
                for block, mode in zip(blocks, modes or len(blocks) * ["none"])]
    setattr(decoder, name, torch.nn.ModuleList(compiled))


@contextlib.contextmanager
def compiling(entry):
    """Blocks are compiled where their checkpoints are put, as TorchTitan does it before it shards them."""
    wrap, ac = training_step.checkpoint_blocks, entry["ac"]
    by_budget = ac.startswith("memory-budget:")
    torch._functorch.config.activation_memory_budget = float(ac.removeprefix("memory-budget:")) if by_budget else 1.0

    def checkpoint_blocks(model, mode):
        wrap(model, "none" if by_budget else mode)
        compiled_blocks(model)

    torch._dynamo.reset()
    training_step.checkpoint_blocks = checkpoint_blocks
    try:
        yield
    finally:
        training_step.checkpoint_blocks = wrap


class CompiledLoss(training_step.Step):
    """The model without a loss, and torchtitan's (components/loss.py, mean over the tokens), compiled."""

    def __init__(self, model, _, on_loss):
        super().__init__(model, "hf", on_loss)
        self.loss = torch.compile(self.cross_entropy)

    @staticmethod
    def cross_entropy(logits, labels):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))

    def forward(self, ids, labels):
        out = self.m(input_ids=ids, use_cache=False)
        out.loss = self.loss(out.logits, labels)
        return out


def build(entry, on_loss):
    """As emulated_peaks.build; what is sharded is the compiled block."""
    ac = entry["ac"]
    budget = ac.removeprefix("memory-budget:") if ac.startswith("memory-budget:") else "1.0"
    torch._functorch.config.activation_memory_budget = float(budget)
    whole = entry.get("compile_unit") == "model"  # in whose graph no hook can mark where the loss begins
    on_loss = (lambda: None) if whole else on_loss
    wrap, parallel, step = training_step.checkpoint_blocks, emulated_peaks.parallel, training_step.Step

    def checkpoint_blocks(model, mode):
        wrap(model, mode)
        if whole:
            model.compile(fullgraph=True, mode="reduce-overhead" if entry.get("cuda_graph") == "segments" else None)
        elif entry["kernels"] == "compiled":
            compiled_blocks(model, entry.get("block_modes", "").split())

    if entry["loss"] == "ce-compiled":
        training_step.Step = CompiledLoss
    training_step.checkpoint_blocks = checkpoint_blocks
    emulated_peaks.parallel = lambda step, _, e: parallel(step, training_step.blocks_of(step.m), e)
    by_blocks = ac.startswith(("memory-budget:", "budget:"))  # the wrappers that they need are made above
    try:
        made, trained = emulated_peaks_build(entry | {"ac": "none" if by_blocks else ac}, on_loss)
        if entry.get("autocast", "none") != "none":
            trained.forward = torch.autocast("cuda", training_step.DTYPES[entry["autocast"]])(trained.forward)
        return made, trained
    finally:
        training_step.checkpoint_blocks, emulated_peaks.parallel, training_step.Step = wrap, parallel, step


def until_replayed(entry, marks, build):
    """CUDA graphs are warmed up, recorded and replayed; the first replay begins with what recording has left."""
    return emulated_peaks.steps(entry, marks, build, count=4)


def measure(entry):
    torch._dynamo.reset()
    if entry.get("cuda_graph") != "segments":
        return emulated_peaks.measure(entry, build)
    try:
        return emulated_peaks.measure(entry, build, until_replayed)
    finally:
        torch._dynamo.reset()
        cudagraph_trees.reset_cudagraph_trees()


emulated_peaks_build = emulated_peaks.build
torch._inductor.config.compile_threads = 1
torch._inductor.config.force_disable_caches = True
torch._inductor.config.triton.autotune_pointwise = False

if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(all_cases()), measure, __doc__))
