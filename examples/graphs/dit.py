"""Blocks of a diffusion transformer (DiT, arXiv:2212.09748, adaLN-Zero) on --seq latent patches."""

import torch
import torch.nn.functional as F
from torch import nn


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, condition):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        q, k, v = self.qkv(self.norm1(x) * (1 + scale1) + shift1).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + gate1 * self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    def __init__(self, channels=16, width=1152, heads=16, layers=6):
        super().__init__()
        self.patch, self.blocks = nn.Linear(channels, width), nn.ModuleList(DiTBlock(width, heads) for _ in range(layers))
        self.time, self.out = nn.Linear(1, width), nn.Linear(width, channels)

    def forward(self, latents, time):
        x, condition = self.patch(latents), self.time(time)
        for block in self.blocks:
            x = block(x, condition)
        return self.out(x)


def make_model(batch, seq):
    latents, time = (torch.randn(batch, n, 16 if n > 1 else 1, dtype=torch.bfloat16) for n in (seq, 1))
    target = torch.randn_like(latents)
    return DiT().bfloat16(), (latents, time[:, 0]), lambda output: F.mse_loss(output, target)
