"""Times the steps of timed_cases() whose labels come by line on stdin; a JSON line goes out for each.

    python -m gpu_day.timing_worker
"""

import gc
import json
import os
import statistics
import sys
import time

WARM, TIMED, QUICK = 3, 7, 0.1  # steps; seconds of a step below which the loop without waiting is timed, too


class NoMarks:
    def enter(self, phase):
        pass


def adapted(emulated_peaks, entry):
    """PEFT's model where the case has an adapter."""
    import peft_peaks
    emulated_peaks.model_of = peft_peaks.model_of if "lora" in entry else peft_peaks.plain


def timed_step(emulated_peaks, torch, entry, build):
    """As emulated_peaks.steps: one step, again and again, with nothing of its set-up left."""
    step, trained = build(entry, lambda: None)
    optimizer = emulated_peaks.make_optimizer(entry, step)
    vocabulary = step.m.config.get_text_config().vocab_size
    ids, labels = (torch.randint(vocabulary, (entry["batch"], entry["seq"])).cuda() for _ in range(2))
    gc.collect()
    torch.cuda.empty_cache()
    kept = []
    return lambda: emulated_peaks.run_step(entry, trained, ids, labels, optimizer, NoMarks().enter, kept)


def clocks(torch, run, count):
    """Seconds of `count` steps, each waited for; and their mean without waiting in between, of quick ones."""
    each = []
    for _ in range(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        each.append(time.perf_counter() - start)
    median = statistics.median(each)
    if median > QUICK:
        return {"seconds": each, "median_seconds": median}
    start = time.perf_counter()
    for _ in range(3 * count):
        run()
    issued = time.perf_counter() - start
    torch.cuda.synchronize()
    whole = time.perf_counter() - start
    return {"seconds": each, "median_seconds": median, "loop_seconds": whole / (3 * count), "issue_seconds": issued / (3 * count)}


def measure(emulated_peaks, torch, case):
    from .oracle import named  # with which parameters are filled, and sample models known

    entry = emulated_peaks.DEFAULTS | case | {"model": named(case)}
    torch._C._accelerator_setAllocatorSettings(entry["alloc_conf"])
    torch.backends.cuda.enable_cudnn_sdp(entry["attn"] != "flash")
    build = emulated_peaks.build
    if "kernels" in case:
        import compile_peaks
        torch._inductor.config.compile_threads = min(16, os.cpu_count() or 1)
        torch._dynamo.reset()
        build = compile_peaks.build
    adapted(emulated_peaks, entry)
    began = time.perf_counter()
    run = timed_step(emulated_peaks, torch, entry, build)
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    reserved = torch.cuda.max_memory_reserved()
    run()
    peaks = {"peak_allocated": torch.cuda.max_memory_allocated(),
             "peak_reserved": max(reserved, torch.cuda.max_memory_reserved())}
    warm = time.perf_counter() - began
    return peaks | clocks(torch, run, TIMED) | {"warming_seconds": round(warm, 2)}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["WORLD_SIZE"] = "1"

    import emulated_peaks
    import torch

    torch.ones((), device="cuda")
    out.write(json.dumps({"ready": True}) + "\n")
    out.flush()
    for line in sys.stdin:
        case, row, fatal = json.loads(line), {}, False
        try:
            emulated_peaks.nothing_left()
            row = measure(emulated_peaks, torch, case)
        except torch.OutOfMemoryError as error:
            row = {"failed": f"out of memory: {str(error)[:200]}"}
        except BaseException as error:  # noqa: BLE001
            row, fatal = {"failed": f"{type(error).__name__}: {str(error)[:400]}"}, True
        out.write(json.dumps(row) + "\n")
        out.flush()
        if fatal:
            os._exit(3)


if __name__ == "__main__":
    main()
