"""Peaks of real PyTorch training steps, measured without a GPU.

A Hugging Face model is built from its config under FakeTensorMode and trained for two steps. A
TorchDispatchMode follows every untyped storage from its creation to its last reference; sizes are
rounded to 512 B, as the CUDA caching allocator does. The numbers are of the second step, the first
one that has optimizer moments. What the figures mean is told in README.md of this folder.

    pytorch_peaks.py --check REFERENCE.json          re-create every case, compare each number
    pytorch_peaks.py --config config.json --batch 2 --seq 32 --ac full --loss chunk --trace FILE
"""

import argparse
import contextlib
import gc
import json
import sys
import time
import weakref
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

aten = torch.ops.aten
PHASES = ("forward", "loss", "backward", "optimizer")


# --- what is measured -------------------------------------------------------------------------


def local(tensor):
    """A DTensor has no memory of its own."""
    return getattr(tensor, "_local_tensor", tensor)


def rounded(nbytes):
    return (nbytes + 511) // 512 * 512


class StorageTracker(TorchDispatchMode):
    """Adds up the bytes of every storage that is alive, and keeps a peak per phase."""

    def __init__(self, log=None):
        super().__init__()
        self.sizes = {}  # storage number -> rounded bytes
        self.numbers = {}  # id(StorageImpl) -> storage number, while it is alive
        self.live = 0
        self.next_number = 0
        self.log = log
        self.phase = None
        self.module = ""  # the one entered last: what peak_at names
        self.inside = ""  # the one whose forward runs
        self.node_modules = {}  # autograd sequence number -> module that made the node
        self.resize = torch.UntypedStorage.resize_

    def __enter__(self):
        tracker = self

        def resize_(storage, nbytes):  # FSDP frees and refills its buffers this way, below the dispatcher
            tracker.resize(storage, nbytes)
            number = tracker.numbers.get(storage._cdata)
            if number is not None:
                tracker.change(number, rounded(nbytes), "resize")

        torch.UntypedStorage.resize_ = resize_
        return super().__enter__()

    def __exit__(self, *exc):
        torch.UntypedStorage.resize_ = self.resize
        return super().__exit__(*exc)

    def start_step(self):
        self.peaks = dict.fromkeys(PHASES, 0)
        self.peak_at = {}
        self.ops = dict.fromkeys(PHASES, 0)
        self.kernels = dict.fromkeys(PHASES, 0)

    def enter_phase(self, phase):
        self.phase = phase
        self.note_peak("")
        if self.log:
            self.log.phase(phase, self.live)

    def enter_module(self, name):
        self.module = self.inside = name

    def leave_module(self, name):
        self.inside = name.rpartition(".")[0]

    def note_peak(self, op):
        if self.phase is None:
            return
        if self.live > max(self.peaks.values()):
            self.peak_at = {"op": op, "module": self.module, "phase": self.phase}
        self.peaks[self.phase] = max(self.peaks[self.phase], self.live)

    def change(self, number, size, how):
        """A size of None ends the storage."""
        self.live += (size or 0) - self.sizes[number]
        if self.log:
            self.log.change(how, number, self.sizes[number], size, self.live)
        if size is None:
            del self.sizes[number]
        else:
            self.sizes[number] = size
            self.note_peak(how)

    def follow(self, tensor):
        """The number of the tensor's storage, and whether it is new."""
        storage = local(tensor).untyped_storage()
        key = storage._cdata
        if key in self.numbers:
            return self.numbers[key], False
        number = self.numbers[key] = self.next_number
        self.next_number += 1
        self.sizes[number] = rounded(storage.nbytes())
        self.live += self.sizes[number]
        weakref.finalize(storage, self.ended, key, number).atexit = False
        return number, True

    def ended(self, key, number):
        del self.numbers[key]
        self.change(number, None, "free")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        inputs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        for tensor in inputs:
            self.follow(tensor)
        out = func(*args, **(kwargs or {}))
        outputs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        followed = [self.follow(t) for t in outputs]
        op = func._schema.name
        if self.phase is not None:
            self.ops[self.phase] += 1
            self.kernels[self.phase] += launches(func)
        self.note_peak(op)
        if self.log:
            self.log.op(self, func, inputs, outputs, followed)
        return out


def launches(func):
    """One for an op that runs a kernel; none for a view, an allocation or a detach."""
    is_view = any(r.alias_info and not r.alias_info.is_write for r in func._schema.returns)
    return 0 if is_view or func._schema.name in NO_KERNEL else 1


NO_KERNEL = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::detach",
             "aten::_unsafe_view", "aten::lift_fresh", "aten::new_empty_strided", "prim::device",
             "aten::_local_scalar_dense"}


class TraceLog:
    """One line for each op of the last step, then one for each storage that ended after it."""

    def __init__(self, path):
        self.path = path
        self.lines = None  # None: not yet the step that is wanted
        self.index = 0
        self.names = {}

    def start(self, tracker, named):
        self.lines = ["# initial live set: %number  bytes  name"]
        for name, tensor in named:
            number, _ = tracker.follow(tensor)
            self.names.setdefault(number, name)
        for number, size in sorted(tracker.sizes.items()):
            self.lines.append(f"#   %{number}  {size}  {self.names.get(number, '?')}")

    def write(self):
        with open(self.path, "w") as file:
            file.write("\n".join(self.lines) + "\n")

    def phase(self, phase, live):
        if self.lines is not None:
            self.lines.append(f"== {phase}  live {live}")

    def change(self, how, number, old, new, live):
        if self.lines is None:
            return
        name = f" {self.names[number]}" if number in self.names else ""
        size = old if new is None else f"{old} -> {new}"
        self.lines.append(f"        {how} %{number}{name} {size}   live {live}")

    def op(self, tracker, func, inputs, outputs, followed):
        sequence = torch.autograd._get_sequence_nr() - 1
        node = torch._C._current_autograd_node()
        module = tracker.inside
        if node is None:
            tracker.node_modules[sequence] = module
        else:
            module = f"{node.name()}@{tracker.node_modules.get(node._sequence_nr(), '')}"
            tracker.node_modules.setdefault(sequence, module)
        if self.lines is None or tracker.phase is None or func._schema.name == "prim::device":
            return
        results = ", ".join(self.result(tracker, t, *f) for t, f in zip(outputs, followed)) or "()"
        sources = " ".join(self.source(tracker, t) for t in inputs)
        op = func._schema.name + ("" if func._overloadname == "default" else "." + func._overloadname)
        kind = "" if launches(func) else "  [no kernel]"
        self.lines.append(
            f"{self.index:5} {tracker.phase:9} {module}  {op}  {results}  <- {sources}{kind}   live {tracker.live}")
        self.index += 1

    def result(self, tracker, tensor, number, new):
        dtype = str(tensor.dtype).removeprefix("torch.")
        what = f"NEW {tracker.sizes[number]} B" if new else "view"
        return f"%{number}{list(tensor.shape)}:{dtype} {what}"

    def source(self, tracker, tensor):
        number, _ = tracker.follow(tensor)
        name = self.names.get(number)
        return f"%{number}" + (f"({name})" if name else "")


# --- what is trained --------------------------------------------------------------------------


def flash_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """What scaled_dot_product_attention runs on a GPU that has flash attention."""
    assert attn_mask is None
    return torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale)[0]


class ChunkedLinearCrossEntropy(torch.autograd.Function):
    """Logits of one chunk at a time; both gradients are made in forward (the way of Liger)."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, tokens, chunk):
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight)
        total = 0
        for start in range(0, hidden.shape[0], chunk):
            rows = slice(start, start + chunk)
            loss, grad_logits = logit_gradient(hidden[rows], weight, labels[rows], tokens)
            total = total + loss
            torch.mm(grad_logits, weight, out=grad_hidden[rows])
            grad_weight += grad_logits.t() @ hidden[rows]
            del loss, grad_logits
        ctx.save_for_backward(grad_hidden, grad_weight)
        return total / tokens

    @staticmethod
    def backward(ctx, grad):
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden.mul_(grad), grad_weight.mul_(grad), None, None, None


def logit_gradient(hidden, weight, labels, tokens):
    """The summed loss of these rows, and the gradient of the mean loss by their logits."""
    logits = (hidden @ weight.t()).float()
    log_probabilities = F.log_softmax(logits, dim=-1)
    del logits
    loss = F.nll_loss(log_probabilities, labels, reduction="sum")
    gradient = log_probabilities.exp_()
    gradient.scatter_(1, labels.clamp(min=0)[:, None], -1, reduce="add")
    gradient.masked_fill_((labels < 0)[:, None], 0)
    return loss, gradient.div_(tokens).to(hidden.dtype)


class Segment(nn.Module):
    """Consecutive blocks that one checkpoint wraps."""

    def __init__(self, blocks):
        super().__init__()
        self.ls = nn.ModuleList(blocks)

    def forward(self, hidden_states, **kwargs):
        for block in self.ls:
            hidden_states = block(hidden_states, **kwargs)
        return hidden_states


def torchtitan_policy():
    """Keeps flash attention and each odd mm of a block; addmm is not mm."""
    counts = defaultdict(int)

    def policy(ctx, func, *args, **kwargs):
        if func == aten.mm.default:
            counts[ctx.is_recompute] += 1
            keep = counts[ctx.is_recompute] % 2 == 1
        else:
            keep = func == aten._scaled_dot_product_flash_attention.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpoint_blocks(model, ac):
    """Wraps blocks of model.layers in place, and returns the units that FSDP shards."""
    blocks = list(model.layers)
    if ac.startswith("seg"):
        size = int(ac[3:])
        blocks = [Segment(blocks[i:i + size]) for i in range(0, len(blocks), size)]
        model.config.num_hidden_layers = len(blocks)
    wrapped = []
    for i, block in enumerate(blocks):
        if ac == "selop":
            block = checkpoint_wrapper(block, context_fn=torchtitan_policy, preserve_rng_state=False)
        elif ac == "full" or ac.startswith("seg") or (ac.startswith("every") and i % int(ac[5:]) == 0):
            block = checkpoint_wrapper(block, preserve_rng_state=False)
        wrapped.append(block)
    model.layers = nn.ModuleList(wrapped)
    return wrapped


class Step(nn.Module):
    """The model with its loss."""

    def __init__(self, model, loss, on_loss):
        super().__init__()
        self.m = model
        self.loss = loss
        self.on_loss = on_loss
        if not loss.startswith("chunk"):
            model.lm_head.register_forward_hook(lambda *_: on_loss())

    def forward(self, ids, labels):
        if not self.loss.startswith("chunk"):
            return self.m(input_ids=ids, labels=labels, use_cache=False)
        hidden = self.m.model(input_ids=ids, use_cache=False).last_hidden_state
        self.on_loss()
        shifted = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return ChunkedLinearCrossEntropy.apply(
            hidden.view(-1, hidden.shape[-1]), self.m.lm_head.weight, shifted.view(-1), labels.numel() - len(labels), 1024)


def measure(case, trace=None):
    """The case with its numbers. `case` has the keys of pytorch_peaks.json."""
    log = TraceLog(trace) if trace else None
    tracker = StorageTracker(log)
    mesh = fake_mesh(case["sharding"])
    with FakeTensorMode(allow_non_fake_inputs=True):
        step = build(case, mesh, tracker)
        optimizer = make_optimizer(case, step)
        shape = (case["batch"], case["seq"])
        ids = torch.zeros(shape, dtype=torch.int64)
        labels = torch.zeros(shape, dtype=torch.int64)
        train(case, tracker, step, optimizer, ids, labels)
    return result(case, tracker)


def train(case, tracker, step, optimizer, ids, labels):
    kept = None
    for _, tensor in named_storages(step, optimizer, ids, labels):
        tracker.follow(tensor)
    with tracker:
        for number in range(2):
            tracker.phase = None
            gc.collect()
            tracker.start_step()
            if number == 1 and tracker.log:
                tracker.log.start(tracker, named_storages(step, optimizer, ids, labels))
            tracker.enter_phase("forward")
            kept = loss = None
            out = step(ids, labels)
            loss = out if isinstance(out, torch.Tensor) else out.loss
            if case["loss"] != "hf_nokeep":
                kept = out
            del out
            tracker.enter_phase("backward")
            loss.backward()
            tracker.enter_phase("optimizer")
            optimizer.step()
            tracker.phase = None
            optimizer.zero_grad(set_to_none=True)
    if tracker.log:
        tracker.log.write()


def result(case, tracker):
    count = lambda counts, *phases: sum(counts[p] for p in phases)
    return case | {
        "peak_bytes": max(tracker.peaks.values()),
        **{f"peak_{phase}": tracker.peaks[phase] for phase in PHASES},
        "peak_at": tracker.peak_at,
        "ops_fwd": count(tracker.ops, "forward", "loss"),
        "ops_bwd": count(tracker.ops, "backward"),
        "kernels_fwd": count(tracker.kernels, "forward", "loss"),
        "kernels_bwd": count(tracker.kernels, "backward"),
        "kernels_opt": count(tracker.kernels, "optimizer"),
    }


def named_storages(step, optimizer, ids, labels):
    yield "input_ids", ids
    yield "labels", labels
    for name, tensor in step.named_buffers():
        yield name, tensor
    for name, parameter in step.named_parameters():
        yield name, local(parameter)
        for key, state in optimizer.state.get(parameter, {}).items():
            if isinstance(state, torch.Tensor):
                yield f"{name}.{key}", local(state)


FAMILIES = {"llama1b": "llama", "qwen3_06b": "qwen3"}


def build(case, mesh, tracker):
    config = transformers.AutoConfig.for_model(**({"model_type": FAMILIES.get(case["model"])} | case["config"]))
    config._attn_implementation = "sdpa"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).train()
    sys.modules[type(model).__module__].create_causal_mask = lambda **_: None
    F.scaled_dot_product_attention = flash_attention
    blocks = checkpoint_blocks(model.model, case["ac"])
    step = Step(model, case["loss"], lambda: tracker.enter_phase("loss"))
    if mesh:
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(step, mesh=mesh, reshard_after_forward=False)
    for name, module in step.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: tracker.enter_module(name))
        module.register_forward_hook(lambda *_, name=name: tracker.leave_module(name))
    return step


def fake_mesh(sharding):
    """A process group whose collectives move nothing, seen from rank 0."""
    if sharding == "single":
        return None
    from torch.testing._internal.distributed.fake_pg import FakeStore
    world = int(sharding.removeprefix("fsdp"))
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    return dist.init_device_mesh("cpu", (world,))


def make_optimizer(case, step):
    return torch.optim.AdamW(step.parameters(), **{case["optimizer"]: True})


# --- the command line -------------------------------------------------------------------------


def check(path, only):
    with open(path) as file:
        cases = json.load(file)["cases"]
    inputs = ("model", "config", "batch", "seq", "ac", "loss", "sharding", "optimizer")
    differing = 0
    for number, expected in enumerate(cases):
        label = "/".join(str(expected[k]) for k in inputs if k != "config")
        if only and only not in label:
            continue
        start = time.time()
        got = measure({k: expected[k] for k in inputs})
        wrong = [f"{k} {got[k]} (reference {expected[k]})" for k in got if got[k] != expected[k]]
        differing += bool(wrong)
        print(f"{number:2} {label}  {time.time() - start:.0f} s  " + ("; ".join(wrong) or "equal"), flush=True)
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check")
    parser.add_argument("--only", help="with --check: cases whose label contains this")
    parser.add_argument("--config")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=32)
    parser.add_argument("--ac", default="none")
    parser.add_argument("--loss", default="hf")
    parser.add_argument("--sharding", default="single")
    parser.add_argument("--optimizer", default="fused")
    parser.add_argument("--trace")
    options = parser.parse_args()
    if options.check:
        return 1 if check(options.check, options.only) else 0
    with open(options.config) as file:
        config = json.load(file)
    case = {k: getattr(options, k) for k in ("batch", "seq", "ac", "loss", "sharding", "optimizer")}
    print(json.dumps(measure({"model": options.config, "config": config} | case, options.trace), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
