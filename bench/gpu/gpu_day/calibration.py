"""Phase: `ac-advisor calibrate`, whose device file predicts the rows of this very machine afterwards (compare.py)."""

from .rows import Rows


def run(context, until, quick):
    def measured():
        if context.emulated:
            return {"left_out": "the emulated device takes no time"}
        words = ["calibrate", "--gpu", context.gpu, "--output", context.out / "device.json", *(["--quick"] if quick else [])]
        context.run(context.advisor(*words), 120, until)
        return {"in": "device.json"}

    context.row(Rows(context.out / "trainer.jsonl"), "calibrate", measured)
