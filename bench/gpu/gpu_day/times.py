"""Phase T: times of whole steps, the GPU alone."""

import json
import queue
import subprocess

from . import commands
from .cases import timed_cases
from .commands import Failed
from .rows import Rows

SLOWEST = 100  # seconds that a case may take, compilation included


class Worker:
    """A process that measures one case after another; another one takes its place where it ends."""

    def __init__(self, context, until):
        self.context, self.until, self.process = context, until, None

    def answer(self, seconds):
        seconds = min(seconds, self.context.left(self.until))
        try:
            _, line = self.answers.get(timeout=max(0.01, seconds))
        except queue.Empty:
            self.stop()
            raise Failed(f"killed after {seconds:.0f} s") from None
        if line is None:
            self.stop()
            raise Failed("its process ended (log.txt)")
        return json.loads(line)

    def measure(self, case):
        if self.context.left(self.until) <= 1:
            raise Failed("not run: no time was left")
        if self.process is None or self.process.poll() is not None:
            self.answers = queue.Queue()
            self.process = self.context.start_process(self.context.python("timing_worker"), stdin=subprocess.PIPE,
                                                      stdout=subprocess.PIPE, stderr=self.context.log_file, text=True)
            commands.Reader(self.process.stdout, self.answers, None)
            self.answer(90)
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self.answer(SLOWEST)

    def stop(self):
        if self.process is not None:
            commands.kill(self.process)
        self.process = None


def run(context, until, only=None, skip=()):
    rows, worker = Rows(context.out / "times.jsonl"), Worker(context, until)
    for case in timed_cases():
        if case["label"] in skip or only is not None and not any(text in case["label"] for text in only):
            continue
        if context.left(until) <= 1:
            context.log(f"{case['label']}: not run: no time was left")
            continue
        context.row(rows, case["label"], lambda: {"case": case["case"]} | worker.measure(case["case"]))
    worker.stop()
