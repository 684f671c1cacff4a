"""A whole step captured into a CUDA graph and replayed."""

import torch

from model import arguments, config, tokens

args = arguments(batch=2, seq=512)
width = config(args.tiny).hidden_size
net = torch.nn.Sequential(*[torch.nn.Linear(width, width, device="cuda") for _ in range(4)])
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True, capturable=True)
values = torch.randn(args.batch * args.seq, width, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    net(values).square().mean().backward()
    optimizer.step()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    net(values).square().mean().backward()
    optimizer.step()
for _ in range(args.steps):
    graph.replay()
torch.cuda.synchronize()
