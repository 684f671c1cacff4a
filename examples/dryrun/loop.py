"""Plain steps, and the line that examples end with."""

import torch

from model import tokens


def train(net, optimizer, args):
    ids = tokens(args)
    for _ in range(args.steps):
        optimizer.zero_grad(set_to_none=True)
        net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()


def report():
    print("max_memory_allocated", torch.cuda.max_memory_allocated())
