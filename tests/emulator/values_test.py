"""Values on the emulated device (src/emulator/values). Runs under `ac-advisor dryrun`, or with the
emulator preloaded and its python folder on PYTHONPATH."""

import os
import subprocess
import sys
import unittest

import torch
import torch.nn.functional as F

B, T, E = 4, 96, 8


def on_both(function):
    """What `function(device)` returns on the CPU and on the emulated device, as lists."""
    torch.manual_seed(0)
    expected = function("cpu")
    torch.manual_seed(0)
    return expected, function("cuda")


def tokens(device):
    return (torch.arange(B * T, dtype=torch.int64) * 7919 % 101).view(B, T).to(device)


def mask(device):
    m = torch.ones(B, T, dtype=torch.int64)
    for row in range(B):
        m[row, T - 7 * row :] = 0
    return m.to(device)


def routes(device):
    """histc of integers is CUDA's alone."""
    return (tokens("cpu") % E).to(torch.float32 if device == "cpu" else torch.int32).to(device)


INTEGERS = {
    "to(dtype)": lambda d: tokens(d).to(torch.int32).to(torch.bool),
    "arange and comparisons": lambda d: torch.arange(T, device=d)[:, None] >= torch.arange(T, device=d),
    "arithmetic": lambda d: (tokens(d) * 3 - 5) // 7 % 11,
    "numbers on the left": lambda d: 1 - mask(d),
    "in place": lambda d: tokens(d).add_(1).mul_(2).clamp_(3, 90),
    "cumsum": lambda d: mask(d).cumsum(-1) - 1,
    "masked_fill": lambda d: tokens(d).masked_fill(mask(d) == 0, -100),
    "nonzero": lambda d: mask(d).nonzero(),
    "nonzero as tuple": lambda d: torch.stack(torch.where(mask(d) == 0)),
    "boolean index": lambda d: tokens(d)[mask(d).bool()],
    "boolean assignment": lambda d: tokens(d).index_put_((mask(d) == 0,), torch.tensor(-1, device=d)),
    "where": lambda d: torch.where(mask(d).bool(), tokens(d), -1),
    "max with index": lambda d: torch.stack(tokens(d).max(dim=1)),
    "argmax": lambda d: tokens(d).argmax(-1),
    "sort": lambda d: torch.stack(tokens(d).sort(dim=-1, stable=True)),
    "topk of integers": lambda d: tokens(d).topk(3).values,
    "unique": lambda d: torch.unique(tokens(d)),
    "unique with counts": lambda d: torch.stack(torch.unique(tokens(d), return_counts=True)),
    "unique of booleans": lambda d: torch.unique(mask(d).bool()),
    "unique_consecutive": lambda d: torch.unique_consecutive(mask(d)),
    "bincount": lambda d: torch.bincount(tokens(d).flatten(), minlength=120),
    "histc": lambda d: torch.histc(routes(d), bins=E, min=0, max=E - 1).long(),
    "one_hot": lambda d: F.one_hot(tokens(d)),
    "repeat_interleave": lambda d: torch.repeat_interleave(tokens(d)[0], mask(d)[1]),
    "scatter": lambda d: torch.zeros(B, T, dtype=torch.int64, device=d).scatter_(1, tokens(d)[:, :9] % T, 5),
    "scatter_add": lambda d: torch.zeros(101, dtype=torch.int64, device=d).scatter_add_(
        0, tokens(d).flatten(), torch.ones(B * T, dtype=torch.int64, device=d)
    ),
    "gather": lambda d: tokens(d).gather(1, tokens(d) % T),
    "index_select": lambda d: tokens(d).index_select(1, tokens(d)[0] % T),
    "tril": lambda d: torch.ones(T, T, dtype=torch.bool, device=d).tril(),
    "diff and pad": lambda d: F.pad(mask(d).sum(-1).cumsum(0), (1, 0)).diff(),
    "roll and flip": lambda d: tokens(d).roll(3, 1).flip(0),
    "cat and stack": lambda d: torch.cat([tokens(d), torch.stack([mask(d)[0]])]),
    "isin": lambda d: torch.isin(tokens(d), torch.tensor([3, 5], device=d)),
    "bucketize": lambda d: torch.bucketize(tokens(d), torch.tensor([10, 50], device=d)),
    "logic": lambda d: (mask(d).bool() & ~(tokens(d) > 50)) | (tokens(d) == 3),
    "strided": lambda d: tokens(d).t()[::3, 1:].contiguous(),
    "back to the host": lambda d: tokens(d).t().cpu(),
    "randperm is a permutation": lambda d: torch.randperm(50, device=d).sort().values,
}

SCALARS = {
    "all": lambda d: (mask(d).all().item(), mask(d)[0].all().item()),
    "any": lambda d: bool((mask(d) == 0).any()),
    "item": lambda d: tokens(d).sum().item(),
    "tolist": lambda d: tokens(d)[0].tolist(),
    "equal": lambda d: (torch.equal(tokens(d), tokens(d)), torch.equal(tokens(d), mask(d))),
    "a mean of few numbers": lambda d: (mask(d)[0, :8].float() / 8).sum().item(),
    "int of a tensor": lambda d: int(mask(d).sum(-1).min()),
    "small floats": lambda d: torch.full((), 3.0, device=d).mul_(2).add(1).item(),
    "types of 0-d results": lambda d: str((torch.ones((), dtype=torch.bfloat16, device=d) * 3.0).dtype),
    "a number's power": lambda d: (2.0 ** torch.arange(4, device=d)).tolist(),
}


class IntegersAreTrue(unittest.TestCase):
    def test_integers(self):
        for name, function in INTEGERS.items():
            with self.subTest(name):
                expected, found = on_both(function)
                self.assertEqual(expected.dtype, found.dtype)
                self.assertEqual(expected.tolist(), found.tolist())

    def test_scalars(self):
        for name, function in SCALARS.items():
            with self.subTest(name):
                expected, found = on_both(function)
                self.assertEqual(expected, found)


class FloatsArePlausible(unittest.TestCase):
    """A large float tensor is not computed, and counts as 1."""

    def setUp(self):
        self.large = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)

    def test_nothing_is_nan_or_infinite(self):
        self.assertFalse(torch.isnan(self.large).any().item())
        self.assertFalse(torch.isinf(self.large.float()).any().item())
        self.assertTrue(torch.isfinite(self.large).all().item())

    def test_a_loss_is_finite(self):
        loss = F.cross_entropy(self.large, torch.arange(512, device="cuda"))
        self.assertEqual(loss.item(), 1.0)

    def test_a_norm_clips_by_a_finite_number(self):
        parameters = [torch.nn.Parameter(torch.randn(300, 300, device="cuda")) for _ in range(4)]
        for p in parameters:
            p.grad = torch.randn_like(p)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
        self.assertEqual(norm.item(), 2.0)  # four norms of 1

    def test_a_gradient_scaler_does_not_skip(self):
        p = torch.nn.Parameter(torch.randn(300, 300, device="cuda"))
        optimizer = torch.optim.AdamW([p])
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale((p * p).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertIn("exp_avg", optimizer.state[p])
        self.assertEqual(scaler.get_scale(), 65536.0)

    def test_memory_that_nobody_wrote_reads_as_a_number(self):
        self.assertEqual(torch.full((1,), -1, dtype=torch.int32, device="cuda").view(torch.float32).item(), 1.0)


class RoutingIsBalanced(unittest.TestCase):
    def test_topk_takes_every_expert_equally_often(self):
        scores = torch.randn(B * T, E, device="cuda").softmax(-1)
        chosen = scores.topk(2).indices
        self.assertEqual(torch.bincount(chosen.flatten()).tolist(), [B * T * 2 // E] * E)
        self.assertTrue((chosen[:, 0] != chosen[:, 1]).all().item())

    def test_topk_of_few_scores_too(self):
        chosen = torch.randn(E, E, device="cuda").topk(2).indices
        self.assertEqual(torch.bincount(chosen.flatten()).tolist(), [2] * E)

    def test_experts_find_their_tokens(self):
        chosen = torch.randn(B * T, E, device="cuda").topk(2).indices
        hits = F.one_hot(chosen, E).permute(2, 1, 0)
        for expert in range(E):
            self.assertEqual(torch.where(hits[expert])[0].numel(), B * T * 2 // E)

    def test_sorted_floats_are_a_permutation(self):
        order = torch.randn(5000, device="cuda").argsort()
        self.assertEqual(order.sort().values.tolist(), list(range(5000)))


PROGRAM = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
x = torch.arange(64, device="cuda")
w = torch.randn(5000, 64, device="cuda", requires_grad=True)
for _ in range(3):
    h = F.embedding(x, w) * 2.0 + 1
    h = F.dropout(h, 0.1) @ w.t()
    loss = F.cross_entropy(h, x)
    loss.backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
s = torch.cuda.memory_stats()
print(s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"], s["allocation.all.allocated"])
print(torch.initial_seed(), torch.rand(1).item())
"""


class NothingElseChanges(unittest.TestCase):
    def test_memory_allocations_and_the_cpus_random_numbers_stay(self):
        def run(values):
            environment = dict(os.environ, AC_ADVISOR_EMULATOR_VALUES=values)
            return subprocess.run(
                [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
            ).stdout

        self.assertEqual(run("1"), run("0"))

    def test_gradients_are_recorded_as_before(self):
        x = torch.ones(3, device="cuda", requires_grad=True)
        (x * 2.0).sum().backward()
        self.assertEqual(x.grad.tolist(), [2.0] * 3)


if __name__ == "__main__":
    unittest.main()
