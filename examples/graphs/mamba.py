"""Mamba's blocks (arXiv:2312.00752): a selective state space in plain PyTorch, scanned a chunk of tokens at a time."""

import torch
import torch.nn.functional as F
from torch import nn

CHUNK = 16  # exp(-sum of a chunk's decays) must be finite


def selective_scan(x, step, decay, b, c):
    """h = exp(step decay) h + step b x along the tokens, and c h of each. x, step: (B, S, D); decay: (D, N); b, c: (B, S, N)."""
    state, outputs = x.new_zeros(x.shape[0], 1, *decay.shape), []
    for x, step, b, c in zip(*(t.split(CHUNK, dim=1) for t in (x, step, b, c))):
        total = (step[..., None] * decay).cumsum(1)  # (B, CHUNK, D, N)
        added = ((-total).exp() * (step * x)[..., None] * b[:, :, None]).cumsum(1)
        states = total.exp() * (state + added)
        outputs.append((states * c[:, :, None]).sum(-1))
        state = states[:, -1:]
    return torch.cat(outputs, dim=1)


class MambaBlock(nn.Module):
    def __init__(self, width, states=16, taps=4):
        super().__init__()
        inner, rank = 2 * width, width // 16
        self.norm, self.parts = nn.RMSNorm(width), (rank, states, states)
        self.in_proj, self.out_proj = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.conv = nn.Conv1d(inner, inner, taps, groups=inner, padding=taps - 1)
        self.x_proj, self.step_proj = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
        self.decay_log = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, residual):
        x, gate = self.in_proj(self.norm(residual)).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        step, b, c = (t.float() for t in self.x_proj(x).split(self.parts, dim=-1))
        step = F.softplus(self.step_proj(step.to(x.dtype)).float())
        y = selective_scan(x.float(), step, -self.decay_log.float().exp(), b, c)
        return residual + self.out_proj((y.to(x.dtype) + self.skip * x) * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self, vocabulary=32000, width=768, layers=6):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.layers = nn.ModuleList(MambaBlock(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def make_model(batch, seq):
    ids = torch.randint(32000, (batch, seq))
    return Mamba().bfloat16(), (ids,), lambda logits: F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
