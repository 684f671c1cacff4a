"""Top-K gradient compression with error feedback (Stich et al. 2018, "Sparsified SGD with Memory") as a communication
hook of DistributedDataParallel: of each bucket the K largest elements by magnitude are sent, the rest waits for the
next step.

    model = DistributedDataParallel(net)
    model.register_comm_hook(TopKState(ratio=0.01), topk_hook)
"""

import torch
import torch.distributed as dist


class TopKState:
    """ratio: of a bucket's elements that are sent. Until iteration `start` gradients are averaged whole:
    DistributedDataParallel makes its buckets anew in the second."""

    def __init__(self, ratio, start=2, group=None):
        self.ratio, self.start, self.group = ratio, start, group or dist.group.WORLD
        self.iteration = 0
        self.errors = {}  # by bucket: what was not sent yet


def topk_hook(state, bucket):
    flat, group, world = bucket.buffer(), state.group, state.group.size()
    first = state.iteration < state.start
    state.iteration += bucket.is_last()
    if first:
        flat.div_(world)
        return dist.all_reduce(flat, group=group, async_op=True).get_future().then(lambda f: f.value()[0])
    if bucket.index() not in state.errors:
        state.errors[bucket.index()] = torch.zeros_like(flat)
    error = state.errors[bucket.index()]
    flat.add_(error)
    k = max(1, int(state.ratio * flat.numel()))
    indices = torch.topk(flat.abs(), k, sorted=False).indices
    values = flat[indices]
    error.copy_(flat)
    error[indices] = 0
    all_values = torch.empty(world * k, dtype=flat.dtype, device=flat.device)
    all_indices = torch.empty(world * k, dtype=indices.dtype, device=flat.device)
    dist.all_gather_into_tensor(all_values, values, group=group)
    dist.all_gather_into_tensor(all_indices, indices, group=group)
    flat.zero_()
    flat.index_add_(0, all_indices, all_values)
    flat.div_(world)
    done = torch.futures.Future(devices=[flat.device] if flat.is_cuda else [])
    done.set_result(flat)
    return done
