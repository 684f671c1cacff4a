"""Cross-entropy over a large vocabulary alone, forward and backward, by PyTorch: its time and its memory.

    python -m gpu_day.loss_alone eager|compiled
"""

import json
import statistics
import sys
import time

TOKENS, HIDDEN, VOCABULARY = 16384, 2048, 128256  # Llama-3.2-1B's, 8 x 2048


def main():
    import torch
    from torch.nn import functional

    def cross_entropy(hidden, weight, labels):
        return functional.cross_entropy(functional.linear(hidden, weight).float(), labels)

    loss = torch.compile(cross_entropy) if sys.argv[1] == "compiled" else cross_entropy
    like = {"device": "cuda", "dtype": torch.bfloat16}
    hidden = torch.randn(TOKENS, HIDDEN, **like).requires_grad_()
    weight = torch.randn(VOCABULARY, HIDDEN, **like).mul_(0.02).requires_grad_()
    labels = torch.randint(0, VOCABULARY, (TOKENS,)).cuda()

    def run():
        hidden.grad = weight.grad = None
        loss(hidden, weight, labels).backward()

    for _ in range(3):
        run()
    hidden.grad = weight.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    peak = torch.cuda.max_memory_allocated() - before
    each = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        each.append(time.perf_counter() - start)
    print(json.dumps({"median_seconds": statistics.median(each), "seconds": each, "peak_beyond_inputs": peak}))


main()
