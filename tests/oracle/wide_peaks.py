"""As emulated_peaks.py, of the steps that wide_cases.py draws.

    ac-advisor dryrun [--world N] --output /dev/null -- python wide_peaks.py wide_peaks.json
"""

import contextlib
import math
import sys

import torch

import emulated_peaks

PLAIN = emulated_peaks.parallel, emulated_peaks.make_optimizer

import fsdp1_peaks  # noqa: E402  it puts its own in their place
from training_step import DTYPES  # noqa: E402
from wide_cases import blocks_of, wide_cases  # noqa: E402


def parallel(step, blocks, entry):
    return (fsdp1_peaks.parallel if entry["shard"] == "fsdp1" else PLAIN[0])(step, blocks, entry)


def ac_of(entry):
    """--ac in training_step's words. sqrt: about as many segments as each has blocks, the last one the shortest."""
    if entry["ac"] == "sqrt":
        blocks = blocks_of(entry["model"])
        return f"seg{math.ceil(blocks / math.ceil(math.sqrt(blocks)))}"
    return PLAIN_AC(entry)


PLAIN_AC, emulated_peaks.ac_of = emulated_peaks.ac_of, ac_of
emulated_peaks.parallel = parallel


class Clipping(fsdp1_peaks.Clipping):
    def step(self):
        if hasattr(self.trained, "clip_grad_norm_"):  # FullyShardedDataParallel's
            return super().step()
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), self.norm)
        self.optimizer.step()


def make_optimizer(entry, step):
    optimizer = PLAIN[1](entry, step)
    return Clipping(optimizer, step.trained[0], entry["clip_grad"]) if "clip_grad" in entry else optimizer


emulated_peaks.make_optimizer = make_optimizer


def build(entry, on_loss):
    step, trained = fsdp1_peaks.build(entry, on_loss)
    if entry["autocast"] != "none":
        forward = step.forward

        def under(ids, labels):
            with torch.autocast("cuda", DTYPES[entry["autocast"]]):
                return forward(ids, labels)

        step.forward = under
    return step, trained


@contextlib.contextmanager
def one_kernel(attn):
    """The memory-efficient one, if it is asked for: the others are off."""
    efficient, cudnn = attn == "efficient", torch.backends.cuda.enable_cudnn_sdp
    torch.backends.cuda.enable_flash_sdp(not efficient)
    torch.backends.cuda.enable_cudnn_sdp = lambda on: cudnn(on and not efficient)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp = cudnn


def measure(entry):
    with one_kernel(entry.get("attn")):
        return emulated_peaks.measure({"autocast": "none"} | entry, build)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(wide_cases()), measure, __doc__))
