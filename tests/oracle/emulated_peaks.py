"""Allocated and reserved peaks and launches of real training steps on the emulated device.

    ac-advisor dryrun [--world N] --output /dev/null -- python emulated_peaks.py OUTPUT.json [--only LABEL] [--model M]

Runs the cases of emulated_cases.py that have this world, one after another in this process, and puts them into
OUTPUT.json beside those that are there. Nothing of one case is left when the next begins: what PyTorch
holds is given back first, and that its counters are at zero is asserted.
"""

import argparse
import contextlib
import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import loop_names
import training_step
from ac_advisor_dryrun import emulator
from emulated_cases import EAGER_ONLY, all_cases, config_of, label
from first_bucket import FirstBucket
from generate_peaks import auto_class
from image_sizes import grid_of

PHASES = ("forward", "loss", "backward", "optimizer")
DEFAULTS = {"shard": "none", "world": 1, "attn": "auto", "optimizer": "adamw", "grad_accum": 1, "no_sync": False,
            "hold_output": None, "keep_last_block": False, "alloc_conf": "expandable_segments:False",
            "param_dtype": "bf16", "compute_dtype": "bf16", "reduce_dtype": "bf16"}
LAUNCHES = ("kernel", "memory_set", "copy_on_device")


class Marks:
    """Peaks and launches between the marks that a step sets."""

    def __init__(self, entry={}):
        self.first_bucket = FirstBucket(entry)
        self.phase = None
        self.figures = {}

    def enter(self, phase):
        """None ends the step."""
        self.first_bucket.enter(phase)
        counts = {a: n for a, (n, _) in emulator.counts().items()}
        if self.phase:
            kept = self.figures.setdefault(self.phase, {"allocated": 0, "reserved": 0, **dict.fromkeys(LAUNCHES, 0)})
            kept["allocated"] = max(kept["allocated"], torch.cuda.max_memory_allocated())
            kept["reserved"] = max(kept["reserved"], torch.cuda.max_memory_reserved())
            for activity in LAUNCHES:
                kept[activity] += counts[activity] - self.counts[activity]
        torch.cuda.reset_peak_memory_stats()
        self.phase, self.counts = phase, counts


# --- the step -----------------------------------------------------------------------------------


def on_device(module, device="cuda", of_parameters=None):
    """Gives meta parameters and buffers memory, those that several modules share once."""
    made = {}
    for name, tensor in list(module.named_parameters(remove_duplicate=True)):
        made[name] = tensor
        whole = torch.nn.Parameter(torch.empty_like(tensor, device=of_parameters or device),
                                   requires_grad=tensor.requires_grad)
        torch.utils.swap_tensors(tensor, whole)
    rotary = [m for m in module.modules() if "RotaryEmbedding" in type(m).__name__]
    for child in rotary:  # its buffers are computed, from the configuration
        with torch.device(device):
            fresh = type(child)(child.config)
        child._buffers.update(fresh._buffers)
        child.__dict__.update({k: v for k, v in fresh.__dict__.items() if isinstance(v, torch.Tensor)})
    for child in module.modules():
        for name, buffer in list(child._buffers.items()):
            if buffer is not None and buffer.is_meta:
                value = child.scalar_embed_scale if hasattr(child, "scalar_embed_scale") else 0
                child._buffers[name] = torch.full_like(buffer, value, device=device)


def data_parallel(module, entry):
    """`gradient_as_bucket_view`: of cases that do not say it, true, which is not PyTorch's default."""
    return DistributedDataParallel(module, gradient_as_bucket_view=entry.get("gradient_as_bucket_view", True))


def parallel(step, blocks, entry):
    """What trains: the step itself, sharded in place, or inside DistributedDataParallel."""
    shard = entry["shard"]
    if shard == "none" or shard == "ddp":
        on_device(step)
        return data_parallel(step, entry) if shard == "ddp" else step
    ranks, names = (entry["world"],), ("shard",)
    if shard.startswith("hsdp:"):
        group = int(shard.removeprefix("hsdp:"))
        ranks, names = (entry["world"] // group, group), ("replicate", "shard")
    shard_over(dist.init_device_mesh("cuda", ranks, mesh_dim_names=names), step, blocks, entry)
    on_device(step)
    return step


def policies_of(entry):
    """fully_shard's mixed precision, where parameters or reductions are not in bf16."""
    if entry["param_dtype"] == "bf16" and entry["reduce_dtype"] == "bf16":
        return {}
    return {"mp_policy": MixedPrecisionPolicy(param_dtype=training_step.DTYPES[entry["compute_dtype"]],
                                              reduce_dtype=training_step.DTYPES[entry["reduce_dtype"]])}


def resharded(entry):
    """True, False or a number of ranks."""
    when = entry.get("reshard_after_forward", "true")
    return when == "true" if isinstance(when, str) else when


def shard_over(mesh, step, blocks, entry, **policies):
    """fully_shard in place, over the ranks that see different data."""
    options = {"mesh": mesh} | policies | policies_of(entry)
    ends = entry.get("fsdp_unit") == "torchtitan"  # torchtitan v0.2.2, models/llama3/infra/parallelize.py, apply_fsdp
    reshards = entry.get("pp", 1) == 1  # there too: stages keep what they have gathered
    embedding = getattr(step.m.base_model, "embed_tokens", None)  # a stage may have neither
    head = step.lm_head if hasattr(step, "lm_head") else training_step.head_of(step.m)
    if ends and embedding is not None:
        fully_shard(embedding, reshard_after_forward=reshards, **options)
    for block in blocks:
        kept = entry["keep_last_block"] and block is blocks[-1]
        fully_shard(block, reshard_after_forward=reshards and not kept and resharded(entry), **options)
    if ends and head is not None:
        fully_shard([step.m.base_model.norm, head], reshard_after_forward=False, **options)
    encoders = [getattr(step.m.base_model, "visual", None), getattr(step.m, "vision_model", None)]
    if encoders[1]:  # Llama 4's
        encoders.append(step.m.multi_modal_projector)
    for encoder in filter(None, encoders):  # never run, never gathered
        fully_shard(encoder, **options)
    fully_shard(step, reshard_after_forward=False, **options)


def ac_of(entry):
    """--ac in training_step's words."""
    return entry["ac"].replace("grouped:", "seg").replace("every:", "every").replace("selective", "selop")


def model_of(entry):
    """On the meta device."""
    config = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    eager = entry["attn"] == "eager" or config.model_type in EAGER_ONLY
    config._attn_implementation = "eager" if eager else "sdpa"
    with torch.device("meta"):
        model = auto_class(config).from_config(
            config, dtype=training_step.DTYPES[entry["param_dtype"]]).train()
    model.tie_weights()
    return model


def build(entry, on_loss):
    model = model_of(entry)
    blocks = training_step.blocks_of(model)
    training_step.checkpoint_blocks(model, ac_of(entry))
    loss = entry["loss"].replace("chunked:", "chunk").replace("ce", "hf")
    step = training_step.Step(model, loss, on_loss)
    if step.chunked:
        training_step.CHUNK_TOKENS = int(entry["loss"].removeprefix("chunked:"))
    return step, parallel(step, blocks, entry)


def images_of(config, ids, entry):
    """So many images a sequence, as a processor makes them, in fp32; their tokens are put into `ids`."""
    vision, images = config.vision_config, entry["images"]
    if hasattr(vision, "temporal_patch_size"):
        return images_of_patches(config, ids, entry)
    tokens = (vision.image_size // vision.patch_size) ** 2 + (config.vision_feature_select_strategy == "full")
    ids[ids == config.image_token_id] = 0
    ids[:, :images * tokens] = config.image_token_id
    shape = (ids.shape[0] * images, vision.num_channels, vision.image_size, vision.image_size)
    return {"pixel_values": torch.randn(shape).cuda()}


def images_of_patches(config, ids, entry):
    """Of Qwen's models: an image is as many patches as it needs, its tokens stand between two of text."""
    vision = config.vision_config
    merge = vision.spatial_merge_size
    height, width = (merge * n for n in grid_of(entry["image_pixels"], merge * vision.patch_size))
    tokens = height * width // merge ** 2
    ids[ids == config.image_token_id] = 0
    types = torch.zeros(ids.shape, dtype=torch.int64)
    for image in range(entry["images"]):
        start = image * (tokens + 2) + 1
        ids[:, start:start + tokens] = config.image_token_id
        types[:, start:start + tokens] = 1
    count = ids.shape[0] * entry["images"]
    patch = vision.in_channels * vision.temporal_patch_size * vision.patch_size ** 2
    return {"pixel_values": torch.randn(count * height * width, patch).cuda(), "mm_token_type_ids": types.cuda(),
            "image_grid_thw": torch.tensor([[1, height, width]] * count).cuda()}


def make_optimizer(entry, step):
    if entry["optimizer"] == "sgd":
        return torch.optim.SGD(step.parameters(), lr=1e-3)
    return torch.optim.AdamW(step.parameters(), **{"fused" if entry["optimizer"] == "adamw" else "foreach": True})


def synchronized(entry, step, micro_batch):
    """Around this one: with --no-sync gradients are reduced in the last alone."""
    last = micro_batch + 1 == entry["grad_accum"]
    if entry["no_sync"] and entry["shard"] in ("ddp", "fsdp1"):
        return contextlib.nullcontext() if last else step.no_sync()
    if entry["no_sync"]:
        step.set_requires_gradient_sync(last)
    return contextlib.nullcontext()


def run_step(entry, step, ids, labels, optimizer, enter, kept):
    optimizer.zero_grad(set_to_none=True)
    for number in range(entry["grad_accum"]):
        enter("forward")
        loop_names.before_forward(entry, kept)
        with synchronized(entry, step, number):
            out = step(ids, labels)
            loss = out if isinstance(out, torch.Tensor) else out.loss
            loop_names.assign(kept, out if entry["hold_output"] is not False else loss)
            del out
            enter("backward")
            loss.backward()
            del loss
    enter("optimizer")
    optimizer.step()


MOST_STEPS = 8


def goes_on(found, fewest):
    """Whether there is another step: until one reserves no more than those before it."""
    if len(found) < fewest:
        return True
    reserved = [highest(step, "reserved") for step in found]
    return reserved[-1] > max(reserved[:-1]) and len(found) < MOST_STEPS


def steps(entry, marks, build, count=None, pause=lambda done: 0.0):
    """Steps until they are alike, or `count` of them; every step's figures. DDP's second makes the buckets anew
    (first_bucket.py). `pause`: seconds after so many steps, in which NCCL's watchdog lets go of what it has sent."""
    step, trained = build(entry, lambda: marks.enter("loss"))
    optimizer = make_optimizer(entry, step)
    vocabulary = step.m.config.get_text_config().vocab_size
    ids, labels = (torch.randint(vocabulary, (entry["batch"], entry["seq"])).cuda() for _ in range(2))
    if entry.get("images", 0):
        step.more |= images_of(step.m.config, ids, entry)
    if entry.get("position_ids"):
        step.more["position_ids"] = torch.arange(entry["seq"]).repeat(entry["batch"], 1).cuda()
    gc.collect()
    torch.cuda.empty_cache()  # what was needed to set up
    kept, found = [], []
    for _ in range(count or (3 if entry["shard"] == "ddp" else 2)):
        marks.figures = {}
        run_step(entry, trained, ids, labels, optimizer, marks.enter, kept)
        marks.enter(None)
        found.append(marks.figures)
        time.sleep(pause(len(found)))
    return found


def highest(figures, what):
    return max(phase[what] for phase in figures.values())


def measure(entry, build=build, steps=steps):
    entry = DEFAULTS | entry
    torch._C._accelerator_setAllocatorSettings(entry["alloc_conf"])
    torch.backends.cuda.enable_cudnn_sdp(entry["attn"] != "flash")
    every = steps(entry, Marks(entry), build)
    first, last = every[0], every[-1]
    figures = {
        "peak_allocated": highest(last, "allocated"),
        "peak_reserved": max(highest(step, "reserved") for step in every),
        "first_step_peak": highest(first, "allocated"),
        "allocated": {p: last[p]["allocated"] for p in PHASES if p in last},
        "reserved": {p: last[p]["reserved"] for p in PHASES if p in last},
        "launches": {p: [last[p][a] for a in LAUNCHES] for p in PHASES if p in last},
    }
    return figures | ({"second_step_peak": highest(every[1], "allocated")} if entry["shard"] == "ddp" else {})


def start_ranks():
    dist.init_process_group("nccl")


def nothing_left():
    emulator.hold_watchdog(False)  # of a case that did not fit
    if dist.is_initialized():  # a group keeps what it reduced last until it is next used
        dist.destroy_process_group()
        start_ranks()
    for _ in range(50):  # NCCL's watchdog lets go of what it has seen end, ten times a second
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        left = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        if left == (0, 0):
            break
        time.sleep(0.1)
    torch.cuda.reset_peak_memory_stats()
    assert left == (0, 0), f"{left} bytes of an earlier case are allocated, reserved"


# --- the file -----------------------------------------------------------------------------------


def write(path, done, entries, gpu):
    """A line a case, in the order of the list; the models' configurations once."""
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, emulated {gpu}"
    order = {label(entry): i for i, entry in enumerate(entries)}
    cases = sorted((c for c in done if label(c["case"]) in order), key=lambda c: order[label(c["case"])])
    models = {name: config_of(name) for name in dict.fromkeys(c["case"]["model"] for c in cases)}
    with open(path + ".part", "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    os.replace(path + ".part", path)


def main(entries, measure=measure, about=__doc__, mine=lambda entry: True, gpu="h100-80gb"):
    """Measures those of the entries that have this world and are `mine`, one after another."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--again", action="store_true", help="those that the file has, too")
    options = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        start_ranks()
    done, failed = [], 0
    if os.path.exists(options.output):
        with open(options.output) as file:
            done = json.load(file)["cases"]
    have = {label(c["case"]) for c in done}
    torch.ones((), device="cuda")
    written = time.time()
    for entry in entries:
        name = label(entry)
        if entry.get("world", 1) != world or not mine(entry) or options.only not in name:
            continue
        if name in have and not options.again:
            continue
        start = time.time()
        try:
            nothing_left()
            figures = measure(entry)
        except torch.OutOfMemoryError:
            print(f"{name}  DOES NOT FIT", flush=True)
            continue
        except SystemExit:
            write(options.output, done, entries, gpu)
            raise
        except Exception as error:  # of this case alone: the others go on
            print(f"{name}  FAILED: {type(error).__name__}: {error}", flush=True)
            failed += 1
            continue
        done = [c for c in done if label(c["case"]) != name] + [{"case": entry} | figures]
        print(f"{name}  {figures['peak_allocated']} {figures['peak_reserved']}  {time.time() - start:.1f} s", flush=True)
        if time.time() > written + 30:
            write(options.output, done, entries, gpu)
            written = time.time()
    write(options.output, done, entries, gpu)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(list(all_cases())))
