"""The training loop that the planner's options describe, in real PyTorch on a CUDA device."""

import argparse
import contextlib
import importlib.util
import shlex

import torch
import torch.distributed as dist
import transformers
from accelerate.utils import convert_outputs_to_fp32
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import loop_names
from training_step import torchtitan_policy

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}


def parse(words):
    """The options of a case; those that are not named here are not in any."""
    parser = argparse.ArgumentParser()
    for name, default in {"batch": 1, "seq": 2048, "grad-accum": 1, "world": 1, "packing": 0, "cp": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--framework", default="hf")
    parser.add_argument("--shard", default="none")
    parser.add_argument("--ac", default=None)
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--lora-targets", default="")
    parser.add_argument("--lora-dtype", default=None)
    parser.add_argument("--lora-dropout", type=float, default=0)
    parser.add_argument("--quantize", default="none")
    parser.add_argument("--attn", default="flash")
    parser.add_argument("--param-dtype", default=None)
    parser.add_argument("--autocast", default=None)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--clip-grad", type=float, default=0)
    parser.add_argument("--loss", default="ce")
    parser.add_argument("--kernels", default="eager")
    parser.add_argument("--output-dtype", default="bf16")
    parser.add_argument("--offload", default="none")
    parser.add_argument("--cp-method", default="allgather")
    parser.add_argument("--task", default="sft")
    parser.add_argument("--ref", default=None)
    parser.add_argument("--prompt", type=int, default=0)
    parser.add_argument("--completion", type=int, default=0)
    parser.add_argument("--teacher", default=None)
    parser.add_argument("--rollout", default="generate")
    parser.add_argument("--router-aux-loss", default="auto", choices=["auto", "on", "off"])
    parser.add_argument("--held-until", choices=["next-forward", "backward"])
    for flag in ("overlap-comm", "gradient-as-bucket-view", "no-hold-output", "ema", "optimizer-in-backward", "dora", "no-ac-reentrant"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args(shlex.split(words))
    if options.param_dtype is None:
        wide = options.autocast or options.framework in ("hf-trainer", "trl", "llamafactory")
        as_loaded = options.framework in ("hf-trainer", "llamafactory") and options.lora and options.autocast != "fp16"
        options.param_dtype = "fp32" if wide and not as_loaded else "bf16"
    if options.completion:
        options.seq = options.prompt + options.completion
    if options.held_until is None:  # hf's, unless something is said of what it holds
        options.held_until = "backward" if options.no_hold_output else "next-forward"
    if options.ac is None:
        options.ac = "full" if options.framework in ("trl", "llamafactory") else "none"
    return options


def checkpoint_blocks(model, ac):
    if ac == "none":
        return
    every = int(ac.removeprefix("every:")) if ac.startswith("every:") else 1
    more = {"context_fn": torchtitan_policy} if ac == "selective" else {}
    model.layers = torch.nn.ModuleList(
        checkpoint_wrapper(block, preserve_rng_state=False, **more) if i % every == 0 else block
        for i, block in enumerate(model.layers))


class MuonBesideAdamW:
    """torch.optim.Muon takes matrices; embedding, head and norms are another's, as its documentation has it."""

    def __init__(self, model):
        named = dict(model.named_parameters())
        matrices = [name for name, p in named.items() if ".layers." in name and p.ndim == 2]
        self.each = [torch.optim.Muon([named[name] for name in matrices]),
                     torch.optim.AdamW([p for name, p in named.items() if name not in matrices], fused=True)]

    def step(self):
        for optimizer in self.each:
            optimizer.step()

    def zero_grad(self, set_to_none=True):
        for optimizer in self.each:
            optimizer.zero_grad(set_to_none)


def make_optimizer(name, parameters):
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters, lr=1e-3, scale_parameter=False, relative_step=False)
    if name in ("adamw-8bit", "paged-adamw", "paged-adamw-8bit", "lion"):
        import bitsandbytes.optim as bnb

        kinds = {"adamw-8bit": bnb.AdamW8bit, "paged-adamw": bnb.PagedAdamW, "paged-adamw-8bit": bnb.PagedAdamW8bit,
                 "lion": bnb.Lion}
        return kinds[name](parameters, lr=1e-3)
    if name == "adamw-8bit-torchao":
        from torchao.optim import AdamW8bit

        return AdamW8bit(parameters, lr=1e-3)
    return {
        "adamw": lambda: torch.optim.AdamW(parameters, fused=True),
        "adamw-foreach": lambda: torch.optim.AdamW(parameters, foreach=True),
        "sgd": lambda: torch.optim.SGD(parameters, lr=1e-3, fused=True),
        "sgd-momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=True),
    }[name]()


def step_in_backward(name, parameters):
    """An optimizer a parameter, which steps when its gradient is accumulated and drops it."""
    optimizers = {parameter: make_optimizer(name, [parameter]) for parameter in parameters}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad(set_to_none=True)

    return [parameter.register_post_accumulate_grad_hook(step) for parameter in parameters]


def loss_without_upcast(logits, labels, vocab_size, **_):
    """transformers' ForCausalLMLoss without logits.float()."""
    labels = torch.nn.functional.pad(labels, (0, 1), value=-100)
    shifted = labels[..., 1:].contiguous()
    return torch.nn.functional.cross_entropy(logits.view(-1, vocab_size), shifted.view(-1))


def torchtune_loss():
    """CEWithChunkedOutputLoss from its own file: the package of torchtune 0.6.1 asks for an older torchao."""
    folder = importlib.util.find_spec("torchtune").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("chunked", f"{folder}/modules/loss/ce_chunked_output_loss.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CEWithChunkedOutputLoss


def forward_in_chunks(model, labels, chunks):
    """torchtune's chunked_output and its loss; recipes/lora_finetune_single_device.py shifts the labels so."""
    loss_of = torchtune_loss()(chunks)
    ignored = torch.full((labels.shape[0], 1), -100, device="cuda")

    def logits_of(input_ids, use_cache):
        hidden = model.model(input_ids=input_ids, use_cache=use_cache).last_hidden_state
        return [model.lm_head(part) for part in hidden.chunk(chunks, dim=1)]

    def forward(input_ids, labels, use_cache):
        logits = logits_of(input_ids, use_cache)
        loss = loss_of(logits, torch.hstack((labels[..., 1:], ignored)))
        return transformers.modeling_outputs.CausalLMOutput(loss=loss, logits=logits)

    return forward


class Run:
    """A model, its optimizer and what the loop holds."""


def build(config, options):
    run = Run()
    config = transformers.AutoConfig.for_model(**config)
    config._attn_implementation = "eager" if options.attn == "eager" else "sdpa"
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=DTYPES[options.param_dtype]).train()
    checkpoint_blocks(model.model, options.ac)
    run.net = run.model = model
    if options.shard == "ddp":
        if not dist.is_initialized():
            dist.init_process_group("nccl")
        run.net = torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=options.gradient_as_bucket_view)
    if options.loss == "ce-no-upcast":
        model.loss_function = loss_without_upcast
    parameters = list(model.parameters())
    run.optimizer, run.hooks = None, []
    if options.optimizer_in_backward:
        run.hooks = step_in_backward(options.optimizer, parameters)
    else:
        muon = options.optimizer == "muon"
        run.optimizer = MuonBesideAdamW(model) if muon else make_optimizer(options.optimizer, parameters)
    run.average = None
    if options.ema:
        run.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    run.autocast = (torch.autocast("cuda", DTYPES[options.autocast]) if options.autocast
                    else contextlib.nullcontext())
    if options.output_dtype == "fp32":  # accelerate's prepare_model: autocast inside, the cast around it
        forward = model.forward
        run.net.forward = convert_outputs_to_fp32(run.autocast(forward) if options.autocast else forward)
        run.autocast = contextlib.nullcontext()
    run.ids = torch.zeros(options.batch, options.seq, dtype=torch.int64, device="cuda")
    run.labels = run.ids.clone()
    if options.loss.startswith("chunked-logits"):
        run.net.forward = forward_in_chunks(model, run.labels, int(options.loss.split(":")[1]))
    run.kept = []
    return run


def train_step(run, options, close, around=contextlib.nullcontext()):
    """`close` ends a phase. `around` a micro-batch's forward and backward."""
    case = {"held_until": options.held_until}
    for _ in range(options.grad_accum):
        loop_names.before_forward(case, run.kept)
        with around:
            with run.autocast:
                out = run.net(input_ids=run.ids, labels=run.labels, use_cache=False)
            loss = out.loss
            loop_names.assign(run.kept, loss if options.no_hold_output else out)
            del out
            close("forward")
            loss.backward()
        del loss
        close("backward")
    if options.clip_grad:
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), options.clip_grad, foreach=True)
    if run.optimizer:
        run.optimizer.step()
    if run.average:
        run.average.update_parameters(run.model)
    close("optimizer")
