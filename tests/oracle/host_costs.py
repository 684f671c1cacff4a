"""What PyTorch's host does in a step, as ratios to a plain op's: the host runs for real on the emulated device.

    AC_ADVISOR_EMULATOR_VALUES=0 ac-advisor dryrun --output /dev/null -- python host_costs.py OUTPUT.json

A plain op is the forward of nn.Linear in bf16, of which machines with GPUs have published figures. Times are of the
process's CPU (all threads: autograd's too), the least of many: what else runs on the machine only ever adds, and a plain
op is measured as often. Tensors are tiny, so that what the
emulated device does for real (fills, copies) takes no time; it does not compute values. What a block costs is the
difference between models of 4 and of 12, so that what a step has once is not in it. Ops are counted as the planner counts
them: views and empty not.
"""

import gc
import json
import sys
import time

import torch
import torch.distributed as dist
import transformers
import triton
import triton.language as tl
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import masking_utils

import training_step

SMALL = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": 64, "max_position_embeddings": 2048}
FEW, MANY = 4, 12
STEPS = 25
NOT_COUNTED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "alias", "_unsafe_view",
               "lift_fresh", "_reshape_alias"}


masking_utils.find_packed_sequence_indices = lambda *_: None  # it reads values that are not computed here


class Counted(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops += not (func.is_view or func.overloadpacket.__name__ in NOT_COUNTED)
        return func(*args, **(kwargs or {}))


def unobserved():
    """Takes off what `dryrun` puts around backward and the optimizer's step, to tell steps: it reads the allocator."""
    from torch.autograd import graph
    from torch.optim import optimizer

    for cell in getattr(graph._engine_run_backward, "__closure__", None) or ():
        if callable(cell.cell_contents):
            graph._engine_run_backward = torch.autograd._engine_run_backward = cell.cell_contents
    optimizer._global_optimizer_pre_hooks.clear()
    optimizer._global_optimizer_post_hooks.clear()


def cpu_of(run, count=1):
    start = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - start) / count


class Plain:
    def __init__(self):
        self.layer = nn.Linear(64, 64, bias=False, device="cuda", dtype=torch.bfloat16)
        self.x = torch.zeros(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def __call__(self):
        return min(cpu_of(lambda: self.layer(self.x), 100) for _ in range(STEPS))


class Loop:
    """A Llama of `blocks` blocks, and the CPU time of each phase of its step."""

    def __init__(self, blocks, ac=False, fsdp=False, autocast=False, optimizer="fused", clip=False, compiled=False,
                 segment=1, reshard=True):
        config = transformers.LlamaConfig(**SMALL, num_hidden_layers=blocks, attn_implementation="sdpa")
        with torch.device("cuda"):
            self.model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.float32 if autocast else torch.bfloat16).train()
        layers = self.model.model.layers
        if segment > 1:
            layers = nn.ModuleList(training_step.Segment(layers[i:i + segment]) for i in range(0, blocks, segment))
            self.model.model.layers, self.model.config.num_hidden_layers = layers, len(layers)
        for i in range(len(layers)):
            if ac:
                layers[i] = checkpoint_wrapper(layers[i], preserve_rng_state=False)
            if compiled:
                layers[i] = torch.compile(layers[i], fullgraph=True)
            if fsdp:
                fully_shard(layers[i], reshard_after_forward=reshard)
        if fsdp:
            fully_shard(self.model, reshard_after_forward=False)
        self.autocast = torch.autocast("cuda", torch.bfloat16, enabled=autocast)
        options = {"foreach": True} if optimizer == "foreach" else {"fused": True}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **options)
        self.ids = torch.zeros(2, 16, dtype=torch.int64, device="cuda")
        self.clip = clip
        self.parameters = len(list(self.model.parameters()))
        for _ in range(3):
            self.step()

    def forward(self):
        with self.autocast:
            self.loss = self.model(input_ids=self.ids, labels=self.ids, use_cache=False).loss

    def backward(self):
        self.loss.backward()

    def step(self):
        found = {"zero": cpu_of(lambda: self.optimizer.zero_grad(set_to_none=True)), "forward": cpu_of(self.forward),
                 "backward": cpu_of(self.backward)}
        if self.clip:
            found["clip"] = cpu_of(lambda: torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        return found | {"optimizer": cpu_of(self.optimizer.step)}

    def ops(self):
        with Counted() as forward:
            self.forward()
        with Counted() as backward:
            self.loss.backward()
        return {"forward": forward.ops, "backward": backward.ops}


KINDS = {"eager": {}, "checkpoint": {"ac": True}, "checkpoint of two": {"ac": True, "segment": 2}, "fsdp2": {"fsdp": True},
         "fsdp2 kept": {"fsdp": True, "reshard": False}, "compiled": {"compiled": True}, "autocast": {"autocast": True},
         "foreach": {"optimizer": "foreach"}, "clip": {"clip": True}}


@triton.jit
def copy_kernel(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


class Fused(torch.autograd.Function):
    """As Liger's: a Python function around one Triton kernel."""

    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        copy_kernel[(1,)](x, y, x.numel(), 1024)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        return Fused.forward(ctx, g) if not ctx.saved_tensors else ctx.saved_tensors[0]


def scripted(x, w):
    # type: (Tensor, Tensor) -> Tensor
    y = x
    for _ in range(100):
        y = torch.nn.functional.linear(y, w)
    return y


def others(plain):
    """Beside blocks: one fused op of Triton, the plain op without Python, a backward of nothing but a sum; tensors that
    a block saves for backward."""
    x, native = plain.x, torch.jit.script(scripted)
    found = {}
    runs = {"fused": (lambda: Fused.apply(x), 200), "native": (lambda: native(x, plain.layer.weight), 3),
            "backward": (lambda: x.sum().backward(), 50), "sum": (lambda: x.sum(), 200)}
    for run, _ in runs.values():
        run()
    found = {name: min(cpu_of(run, count) for _ in range(STEPS)) / plain() for name, (run, count) in runs.items()}
    found["native"] /= 100
    return found | {"saved_of_block": (saved(MANY) - saved(FEW)) / (MANY - FEW)}


def saved(blocks):
    loop, count = Loop(blocks), [0]

    def pack(tensor):
        count[0] += 1
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loop.forward()
    return count[0]


def least(loop):
    """Of each phase over many steps."""
    steps = [loop.step() for _ in range(STEPS)]
    return {phase: min(step[phase] for step in steps) for phase in steps[0]}


def measured():
    unobserved()
    plain = Plain()
    plain()
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    found, plains = {}, []
    for kind, options in KINDS.items():
        loops = {blocks: Loop(blocks, **options) for blocks in (FEW, MANY)}
        plains.append(plain())
        seconds = {blocks: least(loop) for blocks, loop in loops.items()}
        one = min(plains[-1], plain())
        of_block = {p: (seconds[MANY][p] - seconds[FEW][p]) / (MANY - FEW) / one for p in seconds[FEW]}
        found[kind] = {"block": of_block, "rest": {p: seconds[FEW][p] / one - FEW * of_block[p] for p in of_block},
                       "parameters": {b: loop.parameters for b, loop in loops.items()}}
        if not options.get("fsdp"):
            counts = {b: loop.ops() for b, loop in loops.items()}
            found[kind]["ops_of_block"] = {p: (counts[MANY][p] - counts[FEW][p]) / (MANY - FEW) for p in counts[FEW]}
            found[kind]["ops_of_rest"] = {p: counts[FEW][p] - FEW * found[kind]["ops_of_block"][p] for p in counts[FEW]}
        print(kind, json.dumps(found[kind]), file=sys.stderr, flush=True)
        del loops
        gc.collect()
    return {"plain_seconds_here": min(plains), "others": others(plain), "kinds": found}


if __name__ == "__main__":
    text = json.dumps(measured(), indent=1)
    print(text)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            file.write(text + "\n")
