"""cuDNN on the emulated device (src/emulator/cudnn): its own planner decides."""

import os
import subprocess
import sys
import unittest

import torch
import torch.nn.functional as F

B, S = 8, 2048
MIB = 2**20


def heads(count, width):
    shape = (B, S, count, width)
    return torch.empty(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()


def allocated(function):
    """Sizes that `function` asks the caching allocator for, rounded by it to 512 bytes."""
    torch.cuda.memory._record_memory_history()
    try:
        function()
        events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        return [e["size"] for e in events if e["action"] == "alloc"]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


class Attention(unittest.TestCase):
    def backward(self, query_heads, key_heads, width):
        q, k, v = heads(query_heads, width), heads(key_heads, width), heads(key_heads, width)
        out = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=query_heads != key_heads
        )
        self.assertIn("Cudnn", type(out.grad_fn).__name__)
        gradient = torch.empty_like(out)
        return allocated(lambda: out.backward(gradient))

    # The workspace (cuDNN frontend, scaled_dot_product_flash_attention.h): dQ accumulated in fp32, the
    # sum of dO * O for each row in fp32, and 256 bytes of the plan's own; then dQ, dK, dV themselves.
    def test_workspace_of_backward(self):
        query = B * S * 32 * 64
        sizes = self.backward(32, 32, 64)
        self.assertEqual(sizes[:3], [2 * query] * 3)
        self.assertEqual(sizes[3], 4 * query + 4 * B * S * 32 + 256)

    # … and dK, dV of every query's head before they are added up for the heads of keys.
    def test_workspace_of_grouped_queries(self):
        query = B * S * 32 * 64
        sizes = self.backward(32, 8, 64)
        self.assertEqual(sizes[:3], [2 * query, query // 2, query // 2])
        self.assertEqual(sizes[3], 4 * query + 4 * B * S * 32 + 2 * 2 * query + 256)

    def test_a_small_forward_needs_nothing_of_note(self):
        q, k, v = heads(32, 64), heads(8, 64), heads(8, 64)
        sizes = allocated(
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        )
        output, rows = 2 * B * S * 32 * 64, 4 * B * S * 32
        self.assertEqual(sorted(s for s in sizes if s >= MIB), [rows, output])

    def test_flash_where_cudnn_is_put_last(self):
        program = (
            "import torch, torch.nn.functional as F\n"
            "q = torch.empty(2, 4, 128, 64, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
            "print(type(F.scaled_dot_product_attention(q, q, q, is_causal=True).grad_fn).__name__)\n"
        )
        environment = dict(os.environ, TORCH_CUDNN_SDPA_DEPRIORITIZED="1")
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        self.assertIn("Flash", run.stdout, run.stderr)


class OtherOperators(unittest.TestCase):
    def test_convolutions_are_planned(self):
        convolution = torch.nn.Conv2d(3, 1024, 14, stride=14).cuda().bfloat16()
        image = torch.randn(8, 3, 336, 336, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        convolution(image).sum().backward()
        self.assertEqual(image.grad.shape, image.shape)

    def test_what_only_a_device_knows_ends_the_run_with_its_name(self):
        program = (
            "import torch\n"
            "torch.nn.LSTM(64, 64).cuda()(torch.randn(8, 2, 64, device='cuda'))\n"
            "print('went on')\n"
        )
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("went on", run.stdout)
        self.assertIn("cudnnGetRNNWeightSpaceSize", run.stderr)
        self.assertIn("torch.backends.cudnn.enabled = False", run.stderr)


if __name__ == "__main__":
    unittest.main()
