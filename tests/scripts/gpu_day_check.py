"""What bench/gpu/gpu_day promises, without a GPU and without PyTorch: gpu_day_check.py CHECK, from the checkout's root."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/gpu"))

from gpu_day import cases, commands, machine, memory, rows  # noqa: E402

GIB = 2**30


class Context(commands.Context):
    """Workers are gpu_day_worker.py."""

    def python(self, module, *words):
        return [sys.executable, ROOT / "tests/scripts/gpu_day_worker.py", *words]


def job(label, script="some", size=1):
    return {"label": label, "script": script, "world": 1, "case": {"size": size}, "launches": False,
            "stored": {"peak_reserved": size * GIB}}


def phase(folder, jobs, seconds=30):
    context = Context(pathlib.Path(folder), seconds, "h100-80gb", False, time.monotonic())
    memory.SLOWEST = 1
    total = 10 * GIB + memory.MARGIN + 3 * memory.CONTEXT
    memory.Phase(context, jobs, total, 3, seconds, rows.Rows(context.out / "peaks.jsonl")).run()


def every_case_has_a_row():
    jobs = [job(f"case {i}", "some" if i % 3 else "other", 1 + i % 6) for i in range(30)]
    jobs[4] = job("case 4: crash")
    jobs[9] = job("case 9: hang")
    jobs[14] = job("case 14: large", size=20)  # more than there is room for: alone
    jobs.append(job("of no worker", "never"))
    with tempfile.TemporaryDirectory() as folder:
        phase(folder, jobs)
        found = rows.read(pathlib.Path(folder) / "peaks.jsonl")
    assert sorted(row["label"] for row in found) == sorted(j["label"] for j in jobs), found
    failed = {row["label"]: row["failed"] for row in found if "failed" in row}
    assert set(failed) == {"case 4: crash", "case 9: hang", "case 14: large", "of no worker"}, failed
    ran = [row for row in found if "began" in row]
    for row in ran:  # what ran at one time had room
        beside = [r for r in ran if r["began"] <= row["began"] < r["ended"]]
        assert sum(r["size"] for r in beside) <= 10 or len(beside) == 1, beside


def killed_in_the_middle():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "peaks.jsonl"
        process = subprocess.Popen([sys.executable, __file__, "endless", folder], start_new_session=True,
                                   stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while time.monotonic() < until and (not path.exists() or len(path.read_text().splitlines()) < 12):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        lines = path.read_text().splitlines()
        assert len(lines) >= 12, lines
        for line in lines:
            json.loads(line)
        # A line that was cut short after all is none, and a file goes on where it ended.
        with open(path, "a") as file:
            file.write('{"label": "cut sh')
        assert len(rows.read(path)) == len(lines)


def endless(folder):
    phase(folder, [job(f"case {i}") for i in range(100000)], 60)


def a_later_row_counts():
    found = rows.latest([{"label": "a", "failed": "x"}, {"label": "a", "n": 1}, {"label": "b", "n": 2},
                         {"label": "b", "failed": "y"}, {"label": "c", "n": 3}, {"label": "c", "n": 4}])
    assert found == {"a": {"label": "a", "n": 1}, "b": {"label": "b", "n": 2}, "c": {"label": "c", "n": 4}}, found


def no_module_is_hidden():
    """bench/gpu and tests/oracle are on the path of programs that import PyTorch and all that it imports."""
    names = {p.stem for p in (ROOT / "tests/oracle").glob("*.py")}
    assert not names & set(sys.stdlib_module_names), names & set(sys.stdlib_module_names)
    on_path = {p.name for p in (ROOT / "bench/gpu").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert on_path == {"gpu_day", "compare.py"}, on_path


def cases_are_in_order():
    """A first case of each model, with launches, then the rest; each once; worlds beyond one under FSDP2 alone."""
    all_cases = cases.memory_cases()
    labels = [j["label"] for j in all_cases]
    assert len(set(labels)) == len(labels) > 1500
    first = all_cases[:111]
    assert len({j["case"]["model"] for j in first}) == 111 and all(j["launches"] for j in first)
    assert not any(j["launches"] for j in all_cases[111:])
    assert all(j["world"] == 1 or j["case"]["shard"].startswith(("fsdp2", "hsdp")) for j in all_cases)
    assert not any("quantize" in j["case"] for j in all_cases)
    steps = list(cases.timed_cases())
    assert len({s["label"] for s in steps}) == len(steps)
    for step in steps:
        assert cases.config_of(step["case"])["num_hidden_layers"] > 0


def a_device_has_its_file():
    """By the driver's name for it."""
    for name, mebibytes, file in (("NVIDIA H100 80GB HBM3", 81559, "h100-80gb"), ("NVIDIA H200", 143771, "h200"),
                                  ("NVIDIA H100 PCIe", 81559, "h100-pcie"), ("NVIDIA A100-SXM4-40GB", 40960, "a100-40gb")):
        assert machine.device_file_of(name, mebibytes) == file, (name, machine.device_file_of(name, mebibytes))
    assert machine.device_file_of("NVIDIA Z9000", 1) is None


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("passed")
