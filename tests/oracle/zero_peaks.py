"""Writes zero_peaks.json: peaks of DeepSpeed's ZeRO 1, 2 and 3 on the emulated device.

    python zero_peaks.py --list
    ac-advisor dryrun --world N --rank R --output /dev/null -- python zero_peaks.py zero_peaks.json --case K

A case is a model of MODELS and the planner's own options; each runs in a process of its own, as an engine
leaves hooks behind. --list prints world, rank and number of each. Of ZeRO 1 and 2 the rank is the one whose
partition meets the parameters with the most elements, which is planned; of ZeRO 3 all ranks hold alike.

With --offload optimizer its offload_optimizer is on, stepped by DeepSpeedCPUAdam; with parameters
offload_param, too.

With --cp a sequence's ranks share it by DeepSpeed's Ulysses (ulysses_step.py), as accelerate sets it up.

With --kernels fused Liger 0.8.5 patches the model's classes before it is made. With --kernels compiled each block of the
engine's model is compiled in its place (`Module.compile`, as accelerate's compile_regions_deepspeed has it), and Dynamo
breaks its graph at the hooks of stage 3; these cases were drawn before the plan had them.

Of ZeRO 3 the model is made under deepspeed.zero.Init, as transformers makes it, and what that cached is given
back. Its launches by phase are counted, too: kernels, memsets, copies on the device.
"""

import argparse
import contextlib
import gc
import json
import random
import sys

import torch

import loop_names
from loop_cases import MODELS, of, with_case
from loop_step import parse

MODELS = MODELS | {
    "tiny": of("llama", 256, 768, 4, 4, 2, 64, 1024, True),
    "odd": of("llama", 1015, 2731, 5, 5, 5, 200, 32003, False),
    "wide": of("llama", 4096, 11008, 3, 32, 32, 128, 32000, False),
    "large": of("llama", 4096, 14336, 4, 32, 8, 128, 128256, False),
    "deep": of("llama", 4096, 11008, 12, 32, 32, 128, 32000, False),
    "near": of("mistral", 1024, 3584, 4, 16, 4, 64, 32768, False, sliding_window=512),
    "windowed": of("phi3", 1536, 4096, 4, 16, 16, 96, 32064, False, sliding_window=1000, pad_token_id=0),
    "tall": of("llama", 2048, 8192, 24, 32, 8, 64, 32000, False),
}
LAUNCHES = ("kernel", "memory_set", "copy_on_device")


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
    yield from stage_3()
    yield from shared_sequences()
    yield from adapters()
    yield from on_host()
    yield from overlapped()
    yield from fused()
    yield from compiled()
    yield from capped()
    yield from windowed()


def stage_3():
    def case(world, batch, seq, *more):
        return " ".join([f"--world {world} --shard zero3 --batch {batch} --seq {seq}", *more])

    for ac in ("none", "full"):
        for world in (2, 4, 8):
            yield "tiny", case(world, 2, 512, "--ac", ac)
            yield "llama", case(world, 1, 2048, "--ac", ac)
        for model in ("odd", "wide", "large"):
            yield model, case(8, 1, 2048, "--ac", ac)
        for model in ("untied", "mistral", "qwen2", "qwen3", "gemma", "phi3", "olmo2"):
            yield model, case(8, 2, 2048, "--ac", ac)
    yield "llama", case(64, 1, 2048, "--ac full")
    yield "llama", case(8, 3, 1000)
    yield "odd", case(4, 3, 777, "--ac full")
    yield "tall", case(2, 1, 1024, "--ac full")
    yield "tall", case(8, 1, 2048, "--ac none")
    for accum in (2, 3):
        for model in ("llama", "untied", "odd"):
            yield model, case(8, 1, 2048, f"--ac full --grad-accum {accum}")
    for model in ("mistral", "qwen2"):
        yield model, case(8, 1, 2048, "--ac full --clip-grad 1.0")
    for model in ("granite", "smollm3"):
        yield model, case(8, 1, 2048)
    yield "deep", case(2, 1, 512, "--ac full")


def shared_sequences():
    def case(world, cp, batch, seq, *more):
        return " ".join([f"--world {world} --cp {cp} --cp-method ulysses --shard zero3 --batch {batch} --seq {seq}", *more])

    for ac in ("none", "full"):
        yield "llama", case(4, 4, 1, 8192, "--ac", ac)
        yield "mistral", case(8, 8, 2, 8192, "--ac", ac)
        yield "untied", case(8, 2, 2, 4096, "--ac", ac)
    yield "tiny", case(4, 4, 2, 4096, "--ac full --grad-accum 2")
    yield "qwen2", case(2, 2, 1, 4096)
    yield "large", case(8, 8, 1, 32768, "--ac full")


def adapters():
    """PEFT's LoRA, whose fp32 adapters DeepSpeed casts to bf16 with all else, but not those of a model that is made under
    zero.Init: of stage 3, where nothing is quantized (0.19.8, runtime/engine.py: _cast_module_mixed_precision)."""
    for stage in ("zero1", "zero2", "zero3"):
        def case(world, batch, seq, *more, stage=stage):
            dtype = "fp32" if stage == "zero3" and not any("--quantize" in words for words in more) else "bf16"
            return " ".join([f"--world {world} --shard {stage} --batch {batch} --seq {seq} --lora 16 --lora-dtype {dtype}", *more])

        for ac in ("none", "full"):
            yield "llama", case(2, 1, 2048, "--ac", ac)
            yield "untied", case(8, 2, 1024, "--lora-targets all-linear --ac", ac)
        yield "large", case(8, 1, 2048, "--lora-targets all-linear --ac full")
        yield "qwen3", case(4, 2, 1000, "--lora-targets all-linear")
        yield "gemma", case(8, 1, 2048, "--ac full --grad-accum 2")
        yield "mistral", case(8, 1, 2048, "--ac full --clip-grad 1.0")
        yield "llama", case(8, 1, 2048, "--quantize nf4 --ac full")
        yield "large", case(4, 1, 1024, "--quantize nf4-double --lora-targets all-linear --ac full --grad-accum 2")
        yield "qwen3", case(2, 2, 1024, "--quantize nf4")


def on_host():
    def case(world, shard, batch, seq, *more):
        return " ".join([f"--world {world} --shard {shard} --offload optimizer --batch {batch} --seq {seq}", *more])

    for stage in ("zero1", "zero2", "zero3"):
        for ac in ("none", "full"):
            yield "llama", case(8, stage, 1, 2048, "--ac", ac)
        yield "large", case(8, stage, 1, 2048, "--ac full")
        yield "tiny", case(2, stage, 2, 512)
        yield "odd", case(4, stage, 3, 777)
        for model in ("untied", "qwen2", "gemma"):
            yield model, case(8, stage, 2, 2048)
        for accum in (2, 3):
            yield "llama", case(8, stage, 1, 2048, f"--ac full --grad-accum {accum}")
        yield "odd", case(2, stage, 2, 1024, "--ac full --grad-accum 3")
        yield "mistral", case(8, stage, 1, 2048, "--ac full --clip-grad 1.0")
    yield "deep", case(16, "zero3", 1, 512, "--ac full")
    for model, accum in (("llama", 1), ("odd", 2), ("mistral", 1), ("deep", 1)):
        words = case(16 if model == "deep" else 8, "zero3", 1, 2048, f"--ac full --grad-accum {accum}")
        yield model, words.replace("--offload optimizer", "--offload parameters")
    yield "qwen2", case(4, "zero3", 2, 2048).replace("--offload optimizer", "--offload parameters")


def overlapped():
    """Two buckets by turns; the large model fills more than one."""
    for stage in ("zero1", "zero2"):
        case = f"--shard {stage} --overlap-comm"
        for ac in ("none", "full"):
            yield "llama", f"--world 2 {case} --batch 1 --seq 2048 --ac {ac}"
        yield "large", f"--world 8 {case} --batch 1 --seq 2048 --ac full"
        yield "odd", f"--world 4 {case} --batch 3 --seq 777"
        for accum in (2, 3):
            yield "llama", f"--world 8 {case} --batch 1 --seq 2048 --ac full --grad-accum {accum}"


def fused():
    """Liger's kernels, without its loss."""
    def case(world, batch, seq, *more):
        return " ".join([f"--world {world} --shard zero3 --kernels fused --batch {batch} --seq {seq}", *more])

    yield "tiny", case(2, 2, 512, "--ac none")
    yield "llama", case(2, 1, 2048, "--ac none")
    yield "llama", case(8, 1, 2048, "--ac full")
    yield "mistral", case(8, 2, 2048, "--ac none")
    yield "qwen3", case(8, 2, 2048, "--ac full")
    yield "untied", case(4, 3, 1000, "--ac full")
    yield "qwen2", case(8, 2, 2048, "--ac full --grad-accum 2")
    yield "large", case(8, 1, 2048, "--ac full --lora 16 --lora-dtype fp32 --lora-targets all-linear")


def compiled():
    draw = random.Random("compiled blocks of stage 3")
    models = ("llama", "untied", "mistral", "qwen2", "qwen3", "gemma", "phi3", "olmo2", "granite", "smollm3")
    tunes = ["", "", "--lora 16 --lora-dtype fp32", "--lora 16 --lora-dtype fp32 --lora-targets all-linear",
             "--lora 8 --lora-dtype fp32 --quantize nf4"]
    for k in range(16):
        model, tune = draw.choice(models), tunes[k % 5]
        if model in ("phi3", "granite", "olmo2", "smollm3") and tune:  # of which PEFT knows no targets
            tune = "--lora 16 --lora-dtype fp32 --lora-targets all-linear"
        batch, seq = draw.choice(((1, 2048), (2, 2048), (2, 1024), (3, 1000)))
        more = [draw.choice(("--ac none", "--ac full")), draw.choice(("", "", "--grad-accum 2", "--clip-grad 1.0"))]
        if not tune and draw.random() < 0.3:
            more.append("--offload optimizer")
        words = [f"--world {draw.choice((2, 4, 8))} --shard zero3 --kernels compiled --batch {batch} --seq {seq}", tune, *more]
        if "--quantize" not in tune:  # whose pieces are not planned
            yield model, " ".join(filter(None, words))


def capped():
    """Compiled blocks whose scores are soft-capped, which transformers computes op by op."""
    draw = random.Random("compiled blocks of soft-capped scores")
    for k in range(9):
        stage, tune = f"zero{1 + k % 3}", draw.choice(("", "", "--lora 16 --lora-targets all-linear"))
        if tune:
            tune += f" --lora-dtype {'fp32' if stage == 'zero3' else 'bf16'}"
        batch, seq = draw.choice(((1, 2048), (2, 2048), (2, 1024), (4, 512), (3, 1000)))
        more = [draw.choice(("--ac none", "--ac full")), draw.choice(("", "", "--grad-accum 2", "--clip-grad 1.0"))]
        words = [f"--world {draw.choice((4, 8))} --shard {stage} --kernels compiled --batch {batch} --seq {seq}", tune, *more]
        yield "gemma2", " ".join(filter(None, words))


def windowed():
    """Compiled blocks of stage 3 whose attention is given a mask."""
    draw = random.Random("compiled blocks of stage 3 with windows")
    tunes = ("", "", "--lora 16 --lora-dtype fp32 --lora-targets all-linear")
    for model in ("near", "windowed") * 4:
        batch, seq = draw.choice(((1, 2048), (2, 2048), (2, 1024), (3, 1200)))
        more = [draw.choice(("--ac none", "--ac full")), draw.choice(("", "", "--grad-accum 2", "--clip-grad 1.0"))]
        words = [f"--world {draw.choice((4, 8))} --shard zero3 --kernels compiled --batch {batch} --seq {seq}",
                 draw.choice(tunes), *more]
        yield model, " ".join(filter(None, words))


CASES = [(model, words + f" --no-hold-output --attn {'eager' if model == 'gemma2' else 'flash'}") for model, words in cases()]


def adapted(network, options):
    import peft
    from loop_trainer import lora_config

    if not options.lora:
        return network
    network = peft.get_peft_model(network, lora_config(options), low_cpu_mem_usage=next(network.parameters()).is_meta)
    if options.ac == "full":
        network.enable_input_require_grads()
    return network


def shapes_of(model, options):
    """Elements of each parameter that is trained, in the order of parameters()."""
    import transformers

    config = transformers.AutoConfig.for_model(**MODELS[model])
    with torch.device("meta"):
        network = adapted(transformers.AutoModelForCausalLM.from_config(config), options)
        return [p.numel() for p in network.parameters() if p.requires_grad]


def planned_rank(model, options):
    sizes, world = shapes_of(model, options), options.world
    part = -(-sum(sizes) // (2 * world)) * 2
    whole, start = [0] * world, 0
    for size in sizes:
        for rank in range(start // part, (start + size - 1) // part + 1):
            whole[rank] += size
        start += size
    return whole.index(max(whole))


def counts():
    from ac_advisor_dryrun import emulator  # not there where cases are listed alone

    by_activity = emulator.counts()
    return [by_activity[activity][0] for activity in LAUNCHES]


def offloading(options):
    on_host = {"none": (), "optimizer": ("offload_optimizer",), "parameters": ("offload_optimizer", "offload_param")}
    return {what: {"device": "cpu", "pin_memory": True} for what in on_host[options.offload]}


def figures_of(model, words):
    """Of the third step; reserved memory is the highest of all."""
    import adapter_step
    import deepspeed
    import transformers
    import ulysses_step

    options = parse(words)
    config = transformers.AutoConfig.for_model(**MODELS[model])
    config._attn_implementation = "eager" if options.attn == "eager" else "sdpa"
    if options.kernels == "fused":
        import liger_kernel.transformers as liger

        getattr(liger, f"apply_liger_kernel_to_{config.model_type}")(fused_linear_cross_entropy=False)
    settings = {"train_micro_batch_size_per_gpu": options.batch, "gradient_accumulation_steps": options.grad_accum,
                "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True, "gradient_clipping": options.clip_grad,
                "zero_optimization": {"stage": int(options.shard[-1])} | offloading(options)
                | ({"overlap_comm": True} if options.overlap_comm else {})}
    quantized = options.quantize != "none"
    partitions = options.shard == "zero3" and not quantized
    if partitions:  # transformers then makes its models under deepspeed.zero.Init, but for those that it quantizes
        known = transformers.integrations.HfDeepSpeedConfig(settings)
    with contextlib.nullcontext() if partitions else torch.device("meta" if quantized else "cuda"):
        network = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).train()
    if options.ac == "full":
        network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if quantized:
        adapter_step.quantize(network, options.quantize)
        adapter_step.materialize(network)
    network = adapted(network, options)
    trained = [p for p in network.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW if options.offload == "none" else deepspeed.ops.adam.DeepSpeedCPUAdam
    fused = {"fused": True} if options.offload == "none" else {}
    optimizer = adamw(trained, lr=1e-4, **fused)
    groups = ulysses_step.register(network, options) if options.cp > 1 else None
    engine, sharded, _, _ = deepspeed.initialize(model=network, optimizer=optimizer, config=settings, mpu=groups)
    if options.kernels == "compiled":
        import compile_peaks  # noqa: F401  how Inductor is set
        import training_step

        for block in training_step.blocks_of(network.get_base_model() if options.lora else network):
            block.compile()
    del network, optimizer, trained
    if partitions:
        del known
        torch.cuda.empty_cache()
    ids = torch.zeros(options.batch, options.seq // options.cp, dtype=torch.int64, device="cuda")
    labels = ids.clone()
    given = {"position_ids": ulysses_step.positions(vars(options), 0)} if options.cp > 1 else {}
    reserved, peaks, launches, kept = 0, {}, {}, []
    counted = counts()

    def take(phase):
        nonlocal counted
        peaks[phase] = max(peaks.get(phase, 0), torch.cuda.max_memory_allocated())
        now = counts()
        launches[phase] = [a + b - c for a, b, c in zip(launches.get(phase, [0] * len(now)), now, counted)]
        counted = now
        torch.cuda.reset_peak_memory_stats()

    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        peaks.clear()
        launches.clear()
        if options.kernels == "compiled":
            gc.collect()  # frames that Dynamo's exceptions hold in cycles, until Python's collector comes to them
        for _ in range(options.grad_accum):
            loop_names.before_forward(vars(options), kept)
            if options.cp > 1:
                loss = ulysses_step.loss_of(engine, input_ids=ids, shift_labels=labels, use_cache=False, **given)[0]
                loop_names.assign(kept, loss)
            else:
                out = engine(input_ids=ids, labels=labels, use_cache=False)
                loss = out.loss
                loop_names.assign(kept, loss if options.no_hold_output else out)
                del out
            take("forward")
            engine.backward(loss)
            take("backward")
            boundary = engine.is_gradient_accumulation_boundary()
            engine.step()
            take("optimizer" if boundary else "backward")
            del loss
        reserved = max(reserved, torch.cuda.max_memory_reserved())
    states = sum(v.numel() for state in sharded.optimizer.state.values() for v in state.values() if torch.is_tensor(v))
    if states < 2:
        raise SystemExit("the optimizer never stepped")
    return {"peak_allocated": max(peaks.values()), "peak_reserved": reserved, "peak_by_phase": dict(peaks),
            "launches": dict(launches)}


def measure(model, words):
    """Launches of stage 3 alone: what those of 1 and 2 launch beside the optimizer is not all planned."""
    figures = figures_of(model, words)
    if parse(words).shard != "zero3":
        del figures["launches"]
    return figures


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
            options = parse(words)
            rank = 0 if options.shard == "zero3" else planned_rank(model, options)
            print(options.world, rank, number)
        return
    model, words = CASES[arguments.case]
    figures = measure(model, words)
    write(arguments.output, with_case(arguments.output, CASES, model, words, figures))
    print(model, words, figures, flush=True)


if __name__ == "__main__":
    sys.exit(main())
