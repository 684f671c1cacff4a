"""Phase R: what a recorded step tells, what recording costs, and what two modes' traces say of their difference."""

import tarfile

from . import trainer
from .commands import last_json
from .rows import Rows


def run(context, until, skip=()):
    rows = Rows(context.out / "trainer.jsonl")
    archive = context.out / "traces.tar"
    files = {ac: context.out / f"trace-{ac}.json" for ac in ("none", "full")}

    def row(label, measured):
        if label not in skip:
            context.row(rows, label, measured)

    def traced(ac):
        command = context.advisor("trace", "--output", files[ac], "--", *context.python("traced_step", ac))
        context.run(command, 60, until)
        with tarfile.open(archive, "a") as tar:
            tar.add(files[ac], files[ac].name)
        return {"summary": last_json(context.run(context.advisor("trace", files[ac], "--format", "json"), 30, until))}

    for ac in files:
        row(f"trace: PyTorch {ac}", lambda: traced(ac))
    row("diagnose: none and full",
        lambda: {"diagnosis": last_json(context.run(context.advisor("diagnose", *files.values(), "--format", "json"), 30, until))})
    options = {"--loss": "lc-ce", "--ac": "none", "--kernels": "fused"}
    for instrument in ("--trace", "--counters"):
        row(f"trainer {instrument}",
            lambda: trainer.measure(context, trainer.MODEL, options, until, steps=4, seconds=60, more=[instrument]))
    for file in files.values():
        file.unlink(missing_ok=True)
