"""Peaks and launches of TorchTitan 0.2.2's own steps on the emulated device: its models, what parallelizes, pipelines
and clips them, its loss, in the order of train.py.

    ac-advisor dryrun [--world N] [--rank R] --output /dev/null -- python torchtitan_peaks.py torchtitan_peaks.json

As emulated_peaks.py; needs torchtitan 0.2.2 with its requirements on PYTHONPATH. Runs the cases of torchtitan_cases.py
that have this world and this rank; `torchtitan_cases.py` prints which there are.
"""

import gc
import os
import sys

import torch
import torchtitan.models.llama3 as llama3
import torchtitan.models.qwen3 as qwen3
from torch.distributed.tensor.experimental import _attention
from torchtitan.components.loss import build_cross_entropy_loss
from torchtitan.components.optimizer import build_optimizers
from torchtitan.config import JobConfig, TORCH_DTYPE_MAP
from torchtitan.distributed import ParallelDims, activation_checkpoint
from torchtitan.distributed import utils as dist_utils
from torchtitan.distributed.context_parallel import prepare_context_parallel_input
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.moe import MoEArgs
from torchtitan.protocols.model_converter import build_model_converters
from torchtitan.tools import utils

import emulated_peaks
import pp_step
from emulated_cases import config_of
from torchtitan_cases import all_cases, rank_of

DEFAULTS = {"attn": "cudnn", "tp": 1, "cp": 1, "pp": 1, "ep": 1, "pp_schedule": "1f1b", "loss_parallel": True,
            "kernels": "eager", "shard": "fsdp2", "fp8": "none", "fp8_all_gather": False}
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29517"}
SCHEDULES = {"1f1b": "1F1B", "interleaved": "Interleaved1F1B", "zb1": "InterleavedZeroBubble"}


def job_of(entry):
    """The options as TorchTitan's configuration has them."""
    job = JobConfig()
    piped = entry["pp"] > 1
    job.training.seq_len = entry["seq"]
    job.training.local_batch_size = entry["batch"] * (entry["grad_accum"] if piped else 1)
    p = job.parallelism
    p.tensor_parallel_degree, p.context_parallel_degree = entry["tp"], entry["cp"]
    p.pipeline_parallel_degree, p.pipeline_parallel_microbatch_size = entry["pp"], entry["batch"]
    p.pipeline_parallel_schedule = SCHEDULES[entry["pp_schedule"].partition(":")[0]]
    job.optimizer.implementation = "foreach" if entry.get("optimizer") == "adamw-foreach" else "fused"
    p.expert_parallel_degree = entry["ep"]
    p.disable_loss_parallel = not entry["loss_parallel"]
    mode, _, every = entry["ac"].partition(":")
    job.activation_checkpoint.mode = "selective" if mode == "every" else mode
    job.activation_checkpoint.selective_ac_option = every or "op"
    job.compile.enable = entry["kernels"] == "compiled"
    if entry["fp8"] != "none":
        job.model.converters = ["quantize.linear.float8"]
        job.quantize.linear.float8.filter_fqns = ["output", "router.gate"]  # as its configurations have it
        job.quantize.linear.float8.enable_fsdp_float8_all_gather = entry["fp8_all_gather"]
        job.quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp = entry["fp8_all_gather"]
        job.quantize.linear.float8.recipe_name = "rowwise" if entry["fp8"] == "rowwise" else None
    return job


def dims_of(entry):
    ranks = entry["world"] // (entry["tp"] * entry["cp"] * entry["pp"])
    replicas, shards = 1, ranks
    if entry["shard"] == "ddp":
        replicas, shards = ranks, 1
    elif entry["shard"].startswith("hsdp:"):
        shards = int(entry["shard"].removeprefix("hsdp:")) // entry["cp"]  # TorchTitan shards over a ring's ranks, too
        replicas = ranks // shards
    return ParallelDims(dp_replicate=replicas, dp_shard=shards, cp=entry["cp"], tp=entry["tp"], pp=entry["pp"],
                        ep=entry["ep"], etp=1, world_size=entry["world"])


def model_of(entry):
    """Its class, its arguments and what parallelizes it."""
    c = config_of(entry["model"])
    common = {"dim": c["hidden_size"], "n_layers": c["num_hidden_layers"], "n_heads": c["num_attention_heads"],
              "n_kv_heads": c["num_key_value_heads"], "vocab_size": c["vocab_size"], "norm_eps": c["rms_norm_eps"]}
    if c["model_type"] in ("qwen3", "qwen3_moe"):
        experts = {} if c["model_type"] == "qwen3" else {
            "moe_enabled": True, "moe_inter_dim": c["moe_intermediate_size"], "moe_args": MoEArgs(
                num_experts=c["num_local_experts"], num_shared_experts=0, top_k=c["num_experts_per_tok"],
                score_func="softmax", route_norm=c["norm_topk_prob"], score_before_experts=False)}
        args = qwen3.Qwen3ModelArgs(**common, head_dim=c["head_dim"], hidden_dim=c["intermediate_size"],
                                   enable_weight_tying=c["tie_word_embeddings"], **experts)
        return qwen3.get_train_spec(), args
    # FeedForward rounds what it is given up to a multiple.
    args = llama3.TransformerModelArgs(**common, ffn_dim_multiplier=1e-3, multiple_of=c["intermediate_size"])
    return llama3.get_train_spec(), args


def give_shapes(schedule, entry, config):
    """What stages would tell each other in the first step (PipelineStage._shape_inference)."""
    b, s = entry["batch"], entry["seq"]
    hidden = torch.empty(b, s // entry["tp"], config["hidden_size"], dtype=torch.bfloat16, device="meta")
    logits = torch.empty(b, s, config["vocab_size"], dtype=torch.bfloat16, device="meta")
    tokens = torch.empty(b, s, dtype=torch.int64, device="meta")
    stages = getattr(schedule, "_stages", None) or [schedule._stage]
    for stage in stages:
        stage.inputs_meta = (tokens if stage.is_first else hidden,)
        stage._configure_outputs_meta((logits if stage.is_last else hidden,))
    return stages


def build(entry, job, dims, on_loss):
    """(schedule or None, its stages, model parts, the loss, converters), as Trainer.__init__."""
    spec, args = model_of(entry)
    args.update_from_config(job)
    with torch.device("meta"), utils.set_default_dtype(TORCH_DTYPE_MAP[job.training.dtype]):
        model = spec.model_cls(args)
    converters = build_model_converters(job, dims)
    converters.convert(model)
    whole = build_cross_entropy_loss(job)

    def loss_fn(pred, labels):
        on_loss()
        return whole(pred, labels)

    schedule, stages = None, []
    if dims.pp_enabled:
        schedule, parts, _, _ = pipeline_llm(model, dims, job, torch.device("cuda", torch.cuda.current_device()), args,
                                             spec.parallelize_fn, loss_fn)
        stages = give_shapes(schedule, entry, config_of(entry["model"]))
    else:
        parts = [spec.parallelize_fn(model, dims, job)]
    for part in parts:
        part.to_empty(device="cuda")
        with torch.no_grad():
            part.init_weights(buffer_device=None)
        part.train()
    return schedule, stages, parts, loss_fn, converters


def steps(entry, marks, _):
    job, dims = job_of(entry), dims_of(entry)
    activation_checkpoint._layer_sac_count = 0  # a process has one model
    config = config_of(entry["model"])
    dims.build_mesh()
    schedule, stages, parts, loss_fn, converters = build(entry, job, dims, lambda: marks.enter("loss"))
    pp_step.mark_phases(stages, marks.enter)
    optimizers = build_optimizers(parts, job.optimizer, dims)
    optimizers.register_step_post_hook(lambda *args, **kwargs: converters.post_optimizer_hook(parts))
    context = dist_utils.get_train_context(dims.tp_enabled and not job.parallelism.disable_loss_parallel)
    amp = dist_utils.maybe_enable_amp(dims, job.training.mixed_precision_param, "cuda")
    ids, labels = (torch.randint(config["vocab_size"], (job.training.local_batch_size, entry["seq"])).cuda()
                   for _ in range(2))
    accumulated = 1 if schedule else entry["grad_accum"]
    tokens = torch.tensor(float(ids.numel())).cuda()
    gc.collect()
    torch.cuda.empty_cache()  # what was needed to set up
    gc.disable()
    found = []

    def forward_backward():
        inputs, targets, more = ids, labels, {}
        if dims.cp_enabled:
            inputs, targets, more = prepare_context_parallel_input(
                ids, labels, more, dims.get_mesh("cp"), torch.device("cuda"), "headtail")
        if schedule:
            with context():
                first, last = (any(getattr(stage, end) for stage in stages) for end in ("is_first", "is_last"))
                losses = [] if last else None
                schedule.step(*([inputs] if first else []), **more, target=targets if last else None, losses=losses,
                              return_outputs=False)
            return torch.sum(torch.stack(losses)) / tokens if last else torch.tensor([-1.0], device="cuda")
        with context():
            with amp:
                pred = parts[0](inputs, **more)
                loss = loss_fn(pred, targets) / tokens
            del pred
            marks.enter("backward")
            loss.backward()
        return loss

    while emulated_peaks.goes_on(found, 3 if entry["shard"] == "ddp" else 2):
        marks.figures = {}
        optimizers.zero_grad()
        losses = []
        for _ in range(accumulated):
            marks.enter("forward")
            loss = forward_backward()
            losses.append(loss.detach())
        marks.enter("optimizer")
        dist_utils.clip_grad_norm_([p for m in parts for p in m.parameters()], job.training.max_norm, foreach=True,
                                   pp_mesh=dims.get_optional_mesh("pp"), ep_enabled=dims.ep_enabled)
        optimizers.step()
        marks.enter(None)
        found.append({phase: marks.figures.get(phase, {"allocated": 0, "reserved": 0, **dict.fromkeys(
            emulated_peaks.LAUNCHES, 0)}) for phase in emulated_peaks.PHASES})
        del losses, loss
    gc.enable()
    if dims.cp_enabled:
        _attention._disable_context_parallel_dispatcher()
    return found


def measure(entry):
    entry = DEFAULTS | {"shard": "none" if entry.get("world", 1) == 1 else "fsdp2"} | entry
    figures = emulated_peaks.measure(entry, steps=steps)
    torch._dynamo.reset()
    figures.pop("second_step_peak", None)
    return figures


def main(entries, measure, doc):
    """emulated_peaks.main of this rank's cases; `--list` prints the worlds and ranks that there are."""
    if "--list" in sys.argv:
        for world, rank in sorted({(entry.get("world", 1), rank_of(entry)) for entry in entries}):
            print(world, rank)
        return 0
    for name, value in ALONE.items():  # torchrun's variables, which a dryrun of one rank has not
        os.environ.setdefault(name, value)
    return emulated_peaks.main(entries, measure, doc,
                               lambda entry: rank_of(entry) == int(os.environ.get("RANK", "0")))


if __name__ == "__main__":
    sys.exit(main(list(all_cases()), measure, __doc__))
