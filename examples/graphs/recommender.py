"""A recommender (DLRM, arXiv:1906.00091): --batch users, tables of embeddings, no blocks; --seq has no meaning."""

import torch
import torch.nn.functional as F
from torch import nn


def layers(*widths):
    steps = []
    for a, b in zip(widths, widths[1:]):
        steps += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*steps[:-1])


class Recommender(nn.Module):
    def __init__(self, tables=8, rows=200_000, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom, self.top = layers(13, 512, 256, width), layers(width + (tables + 1) * tables // 2, 512, 256, 1)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        features = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], dim=1)
        pairs = torch.bmm(features, features.transpose(1, 2))
        row, column = torch.tril_indices(features.shape[1], features.shape[1], offset=-1)
        return self.top(torch.cat([x, pairs[:, row, column]], dim=1))


def make_model(batch, seq):
    dense, sparse, click = torch.randn(batch, 13), torch.randint(200_000, (batch, 8)), torch.rand(batch, 1)
    return Recommender(), (dense, sparse), lambda output: F.binary_cross_entropy_with_logits(output, click)
