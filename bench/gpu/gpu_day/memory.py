"""Phase M: the oracle's cases by workers that live for many, as many at a time as the device's memory takes."""

import json
import queue
import subprocess
import time

from . import commands
from .cases import memory_cases
from .rows import Rows

CONTEXT = 0.8 * 2**30  # of a process, beside what PyTorch reserves
MARGIN = 13 * 2**30  # the tests that run beside it, fragments, what differs from the emulated device
WINDOW = 64  # how far down the list a worker looks for what fits
SLOWEST = 60  # seconds that a case may take
IMPORTS = 90  # until a worker says that it is ready


class Worker:
    def __init__(self, context, number, answers):
        self.context, self.number, self.answers = context, number, answers
        self.process = self.key = self.job = None
        self.ready, self.since = False, 0.0

    def start(self, key):
        self.stop()
        self.key, self.ready, self.since = key, False, time.monotonic()
        self.tag = (self.number, self.since)
        self.process = self.context.start_process(
            self.context.python("worker", *map(str, key)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.context.log_file, text=True)
        commands.Reader(self.process.stdout, self.answers, self.tag)

    def give(self, job):
        self.job, self.since = job, time.monotonic()
        try:
            self.process.stdin.write(json.dumps({k: job[k] for k in ("label", "case", "launches")}) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it is gone: its pipe says so

    def late(self):
        return self.process is not None and (self.job is not None or not self.ready) and \
            time.monotonic() - self.since > (SLOWEST if self.ready else IMPORTS)

    def stop(self):
        if self.process is not None:
            commands.kill(self.process)
        self.process, self.ready = None, False


def need(job):
    return job["stored"]["peak_reserved"]


class Phase:
    def __init__(self, context, jobs, total, workers, until, rows):
        self.context, self.jobs, self.until, self.rows = context, list(jobs), until, rows
        self.room = total - MARGIN - workers * CONTEXT
        self.answers = queue.Queue()
        self.workers = [Worker(context, n, self.answers) for n in range(workers)]
        self.done = self.failed = 0

    def running(self):
        return [w.job for w in self.workers if w.job is not None]

    def fits(self, job):
        return not self.running() or sum(map(need, self.running())) + need(job) <= self.room

    def choose(self, worker):
        """The first of the list that fits, of the worker's own script if there is one; None: wait."""
        near = [job for job in self.jobs[:WINDOW] if self.fits(job)]
        own = [job for job in near if (job["script"], job["world"]) == worker.key]
        return (own or near or [None])[0]

    def feed(self, worker):
        if worker.job is not None or worker.process is not None and not worker.ready:
            return
        job = self.choose(worker)
        if job is None:
            return
        if worker.key != (job["script"], job["world"]) or worker.process is None:
            worker.start((job["script"], job["world"]))
        else:
            self.jobs.remove(job)
            worker.give(job)

    def finish(self, worker, row):
        job = worker.job
        worker.job = None
        if job is None:
            return
        self.rows.add({"label": job["label"], "script": job["script"]} | row)
        self.done += 1
        if "failed" in row:
            self.failed += 1
            self.context.log(f"{job['label']}: failed: {row['failed'][:200]}")

    def hear(self, seconds):
        try:
            tag, line = self.answers.get(timeout=seconds)
        except queue.Empty:
            return
        worker = self.workers[tag[0]]
        if tag != worker.tag:  # of a process before this one
            return
        if line is None:
            unready, job = not worker.ready, worker.job
            self.finish(worker, {"failed": "its process ended"})
            worker.stop()
            if unready and job is None:  # it could not even begin: none of its script can
                self.drop(worker.key, "its worker does not start (log.txt)")
            return
        row = json.loads(line)
        if "ready" in row:
            worker.ready = True
        else:
            self.finish(worker, row)

    def drop(self, key, why):
        dropped = [job for job in self.jobs if (job["script"], job["world"]) == key]
        self.jobs = [job for job in self.jobs if (job["script"], job["world"]) != key]
        for job in dropped[:1]:
            self.rows.add({"label": job["label"], "script": job["script"], "failed": f"{why}; so of {len(dropped)} cases"})
        self.context.log(f"{key}: {why}: {len(dropped)} cases are left out")

    def run(self):
        while self.context.left(self.until) > 0 and (self.jobs or self.running()):
            for worker in self.workers:
                if worker.late():
                    self.finish(worker, {"failed": f"killed after {SLOWEST} s"})
                    worker.stop()
                self.feed(worker)
            self.hear(0.05)
        for worker in self.workers:
            worker.stop()
        self.context.log(f"memory: {self.done} cases, {self.failed} failed, {len(self.jobs)} not run")


def run(context, until, total, workers, only=None, skip=()):
    """`only`: texts that a case's label must have one of; `skip`: labels that are done."""
    jobs = [job for job in memory_cases() if job["label"] not in skip]
    if only is not None:
        jobs = [job for job in jobs if any(text in job["label"] for text in only)]
    Phase(context, jobs, total, workers, until, Rows(context.out / "peaks.jsonl")).run()
