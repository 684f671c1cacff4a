"""Gradients that DistributedDataParallel's communication hooks make on two processes over Gloo: PyTorch's own PowerSGD
and examples/grad_compression/topk_hook.py, in the second step that compresses (with the first one's error, and its
factors). Writes compression/<name>.safetensors beside this script. With --check it compares instead of writing.

    python compression_reference.py [--check]

Needs torch==2.11.0, transformers==5.23.0 and safetensors.
"""

import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from transformers_reference import SEQ, build

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "grad_compression"))
from topk_hook import TopKState, topk_hook  # noqa: E402

RANKS, PLAIN, COMPRESSED = 2, 2, 2  # steps without and with compression
CASES = {"powersgd_1": 1, "powersgd_4": 4, "topk": 0.05}


class Net(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def factors_hook(names, first):
    """powerSGD_hook, whose right factors begin as `first` says, by a parameter's name."""

    def hook(state, bucket):
        if state.iter >= state.start_powerSGD_iter and bucket.index() not in state.q_memory_dict:
            ps, qs = 0, []
            by_shape = {}  # the hook's own order: those of one shape after another
            for parameter in bucket.parameters():
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for parameter in (p for same in by_shape.values() for p in same):
                matrix = parameter.view(parameter.shape[0], -1)
                rank = min(*matrix.shape, state.matrix_approximation_rank)
                if powerSGD_hook._should_compress(*matrix.shape, rank, state.min_compression_rate)[0]:
                    ps += matrix.shape[0] * rank
                    first["q." + names[parameter]] = torch.randn(matrix.shape[1], rank)
                    qs.append(first["q." + names[parameter]].flatten())
            state.p_memory_dict[bucket.index()] = torch.empty(ps)
            state.q_memory_dict[bucket.index()] = torch.cat(qs)
        return powerSGD_hook.powerSGD_hook(state, bucket)

    return hook


def run(rank, name, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + folder + "/rendezvous", rank=rank, world_size=RANKS)
    config, model = build("llama")
    names = {p: n for n, p in model.named_parameters()}
    net = DistributedDataParallel(Net(model), gradient_as_bucket_view=True)
    first = {}
    torch.manual_seed(3)
    if name == "topk":
        net.register_comm_hook(TopKState(CASES[name], start=PLAIN), topk_hook)
    else:
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=CASES[name], start_powerSGD_iter=PLAIN)
        net.register_comm_hook(state, factors_hook(names, first))
    generator = torch.Generator().manual_seed(17)
    kept = {}
    for step in range(PLAIN + COMPRESSED):
        ids = torch.randint(0, config.vocab_size, (RANKS, SEQ), generator=generator)
        if step >= PLAIN:
            kept[f"ids.{step - PLAIN}"] = ids
        net.zero_grad(set_to_none=False)
        net(ids[rank:rank + 1]).backward()
    kept |= {k: v.clone() for k, v in first.items()}
    kept |= {"grad." + n: p.grad.clone().contiguous() for p, n in names.items()}
    if rank == 0:
        save_file(kept, folder + "/made.safetensors")
    dist.barrier()
    dist.destroy_process_group()


def main():
    check = "--check" in sys.argv[1:]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    worst = 0.0
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(run, args=(name, folder), nprocs=RANKS)
            made = load_file(folder + "/made.safetensors")
        target = HERE / "compression" / (name + ".safetensors")
        if not check:
            target.parent.mkdir(exist_ok=True)
            save_file(made, target)
            print(name, len(made), "tensors")
            continue
        for key, value in load_file(target).items():
            difference = (made[key].double() - value.double()).norm() / max(value.double().norm(), 1e-30)
            worst = max(worst, float(difference))
    if check:
        print(f"largest relative difference {worst:.3g}")
        sys.exit(worst > 1e-5)


if __name__ == "__main__":
    main()
