"""Phase K: this project's own trainer, and the loss alone beside PyTorch's; its kernels beside the memory's bandwidth."""

import json
import tempfile

from .cases import config_of
from .commands import last_json
from .machine import device_file_of, devices
from .rows import Rows

MODEL, BATCH, SEQ = "llama-3.2-1b", 8, 2048
LOSSES = ("ce", "lc-ce", "chunked:2048")


def steps():
    fused = {"--kernels": "fused"}
    yield {"--loss": "lc-ce", "--ac": "none"} | fused
    yield {"--loss": "ce", "--ac": "none"} | fused
    yield {"--loss": "ce", "--ac": "none", "--kernels": "eager"}
    yield {"--loss": "lc-ce", "--ac": "full"} | fused
    yield {"--loss": "lc-ce", "--ac": "none", "--cuda-graph": "step"} | fused
    yield {"--loss": "lc-ce", "--ac": "full", "--world": "8", "--shard": "fsdp2", "--collectives": "emulate"} | fused


def words(options):
    return [word for name, value in options.items() for word in ([name] if value is True else [name, str(value)])]


def measure(context, model, options, until, steps=6, seconds=60, more=()):
    command = ["measure", model, *words({"--batch": BATCH, "--seq": SEQ} | options), "--gpu", context.gpu, "--format", "json"]
    run = ["--steps", str(steps), "--emulated" if context.emulated else "--no-parity", *more]
    result = last_json(context.run(context.advisor(*command, *run), seconds, until))
    planned = result["predicted"]
    return {"options": options, "model": model, "peak_allocated": result["memory"]["peak_allocated_bytes"],
            "peak_reserved": result["memory"].get("peak_reserved_bytes"),
            "planned_allocated": planned["memory"]["peak_allocated_bytes"],
            "planned_reserved": planned["memory"].get("peak_reserved_bytes"),
            "median_seconds": (result.get("time") or {}).get("step_seconds"),
            "planned_seconds": (planned.get("time") or {}).get("step_seconds"),
            "launches": (result.get("kernels") or {}).get("launches"),
            "loss_phase": (result["memory"].get("peak_by_phase") or {}).get("loss")}


def one_block(folder):
    """A model of one block: its steps with two losses differ by the losses."""
    config = config_of({"model": MODEL, "layers": 1})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def kernels(context, until):
    name = device_file_of(context.gpu, 0) or context.gpu
    device = next(d for d in devices() if d["name"] == name or context.gpu in [d["name"], *d.get("aliases", [])])
    peak = device["bandwidth_bytes_per_second"]["value"] / 1e9
    return {"text": context.run([context.programs() / "device_kernels_bench", "--peak-gbps", peak], 60, until)}


def run(context, until, skip=()):
    import pathlib
    rows = Rows(context.out / "trainer.jsonl")

    def row(label, measured):
        if label not in skip:
            context.row(rows, label, measured)

    for options in steps():
        row(f"trainer: {MODEL} " + " ".join(words(options)), lambda: measure(context, MODEL, options, until))
    for how in ("eager", "compiled"):
        row(f"loss alone: PyTorch {how}",
            lambda: json.loads(context.run(context.python("loss_alone", how), 60, until).splitlines()[-1]))
    with tempfile.TemporaryDirectory() as folder:
        model = one_block(pathlib.Path(folder))
        for loss in LOSSES:
            options = {"--loss": loss, "--kernels": "fused", "--optimizer": "sgd", "--ac": "none"}
            row(f"loss alone: one block, {loss}", lambda: measure(context, model, options, until) | {"model": f"{MODEL}, one block"})


def run_kernels(context, until):
    context.row(Rows(context.out / "trainer.jsonl"), "device_kernels_bench", lambda: kernels(context, until))
