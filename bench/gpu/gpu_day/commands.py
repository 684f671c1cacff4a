"""Commands with a limit on their time; what they say goes to the log, and nothing of them outlives it."""

import json
import os
import signal
import subprocess
import threading
import time

from .machine import PACKED, ROOT


class Failed(Exception):
    pass


class Context:
    """What every phase is told: where results go, the programs, the deadline."""

    def __init__(self, out, deadline, gpu, emulated, start, programs=None):
        self.out, self.deadline, self.gpu, self.emulated, self.start = out, deadline, gpu, emulated, start
        self.bin = programs or (ROOT / "build/release" if emulated else PACKED / "bin")
        self.log_file = os.open(out / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.building = None  # a build that replaces programs that do not start

    def seconds(self):
        """Since the run began."""
        return time.monotonic() - self.start

    def left(self, until=None):
        return min(self.deadline, until or self.deadline) - self.seconds()

    def log(self, text):
        line = f"[{self.seconds():6.1f}] {text}\n"
        os.write(self.log_file, line.encode())
        print(line, end="", flush=True)

    def programs(self):
        """The folder of those that start."""
        if self.building is not None and self.building.poll() == 0:
            self.bin, self.building = ROOT / "build/gpu-day", None
        return self.bin

    def advisor(self, *words):
        return [self.programs() / "ac-advisor", *words]

    def python(self, module, *words):
        """A module of this package in a process of its own, on the emulated device where there is no other."""
        import sys
        command = [sys.executable, "-m", f"gpu_day.{module}", *words]
        if not self.emulated:
            return command
        return self.advisor("dryrun", "--gpu", self.gpu, "--output", "/dev/null", "--", *command)

    def environment(self):
        paths = [ROOT / "bench/gpu", ROOT / "tests/oracle"]
        if not self.emulated:
            paths.append(ROOT / "bench/gpu/gpu_day/real_device")
        before = os.environ.get("PYTHONPATH", "")
        return os.environ | {"PYTHONPATH": ":".join([*map(str, paths), *([before] if before else [])]),
                             "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def start_process(self, words, **options):
        return subprocess.Popen([str(w) for w in words], env=self.environment(), cwd=ROOT, start_new_session=True,
                                stdin=options.pop("stdin", subprocess.DEVNULL), **options)

    def run(self, words, seconds, until=None):
        """A command's stdout; Failed with the end of what it said, also when its time is over."""
        seconds = min(seconds, self.left(until))
        if seconds <= 1:
            raise Failed("not run: no time was left")
        process = self.start_process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            kill(process)
            out, err = process.communicate()
            raise Failed(f"killed after {seconds:.0f} s: {tail(err or out)}") from None
        if process.returncode != 0:
            raise Failed(f"exit code {process.returncode}: {tail(err or out)}")
        return out

    def row(self, rows, label, measure):
        """Adds what `measure()` returns, or why there is nothing; whatever it raises, the run goes on."""
        began = self.seconds()
        row = {"label": label}
        try:
            row |= measure()
        except Exception as error:  # noqa: BLE001  the reason stands where the figure would
            row["failed"] = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        row["took"] = round(self.seconds() - began, 2)
        rows.add(row)
        self.log(f"{label}: " + ("failed: " + row["failed"][:300] if "failed" in row else f"{row['took']} s"))
        return row


def tail(text, length=600):
    return text.strip()[-length:]


def kill(process):
    """It and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def last_json(text):
    """The JSON object that the output ends with, after whatever a program said before."""
    return json.loads(text[text.index("{"):])


class Reader(threading.Thread):
    """Puts each line of a process's pipe into a queue, then None."""

    def __init__(self, pipe, queue, tag):
        super().__init__(daemon=True)
        self.pipe, self.queue, self.tag = pipe, queue, tag
        self.start()

    def run(self):
        for line in self.pipe:
            self.queue.put((self.tag, line))
        self.queue.put((self.tag, None))
