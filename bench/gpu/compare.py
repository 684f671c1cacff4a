#!/usr/bin/env python3
"""Joins what a run on a GPU measured with what is stored of the emulated device and with the plan, by label.

    bench/gpu/compare.py DIR [DIR …]                 the summary; of several runs the later rows count
    bench/gpu/compare.py DIR [DIR …] --write         also docs/measured/DEVICE/: tables, plots, the rows themselves
    bench/gpu/compare.py DIR --exact                 1 unless every figure is the stored one (a run with --emulated)

Rows beyond 0.1 % of allocated, 1 % of reserved, 2 % of launches or 8 % of time are listed, each with its mechanism
as docs/measured/DEVICE/mechanisms.json tells it ({"text of a label": "why"}), or "not explained".
"""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from gpu_day import cases, plots, rows  # noqa: E402
from gpu_day.machine import ROOT  # noqa: E402

BOUNDS = {"allocated": 0.1, "reserved": 1.0, "launches": 2.0, "time": 8.0}  # percent


def read(folders, name):
    return rows.latest([row for folder in folders for row in rows.read(folder / name)])


def total(launches):
    return sum(n for kinds in launches.values() for n in kinds)


def words_of(case, gpu):
    """A case's keys are the planner's options."""
    words = ["--gpu", gpu]
    for key, value in case.items():
        name = "--" + key.replace("_", "-")
        if key in ("model", "layers"):
            continue
        words += ([name] if value else ["--no-" + name[2:]]) if isinstance(value, bool) else [name, str(value)]
    return words


class Planner:
    def __init__(self, program, gpu, folder):
        self.program, self.gpu, self.folder, self.models = program, gpu, pathlib.Path(folder), {}

    def file_of(self, case, configs):
        key = f"{case['model']}_{case.get('layers', '')}"
        if key not in self.models:
            path = self.folder / f"{key}.json"
            path.write_text(json.dumps(configs.get(case["model"]) or cases.config_of(case)))
            self.models[key] = path
        return self.models[key]

    def plan(self, case, configs):
        """{allocated, reserved, launches, time}, or {"refused": why}."""
        words = [self.program, "plan", self.file_of(case, configs), *words_of(case, self.gpu), "--format", "json"]
        ran = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if ran.returncode != 0:
            return {"refused": ran.stderr.strip().splitlines()[0] if ran.stderr else f"exit code {ran.returncode}"}
        result = json.loads(ran.stdout)
        launches = result["kernels"]["launches"]
        return {"allocated": result["memory"]["peak_allocated_bytes"], "reserved": result["memory"]["peak_reserved_bytes"],
                "launches": sum(launches.values()) if isinstance(launches, dict) else launches,
                "time": result["time"]["step_seconds"]}


def configs_by_script():
    return {script: json.loads((cases.ORACLE / f"{script}.json").read_text())["models"] for script in cases.SCRIPTS}


def memory_rows(folders, planner):
    """Those rows, each with its plan."""
    found, configs = measured_rows(folders), configs_by_script()
    for row, plan in zip(found, planned(planner, [(r["job"]["case"], configs[r["job"]["script"]]) for r in found])):
        row["planned"] = plan
    return found


def measured_rows(folders):
    """One a measured case: label, measured, stored."""
    jobs = {job["label"]: job for job in cases.memory_cases()}
    return [{"label": label, "job": jobs[label], "figures": row["measured"], "measured": of(row["measured"]),
             "stored": of(jobs[label]["stored"])}
            for label, row in read(folders, "peaks.jsonl").items() if label in jobs and "measured" in row]


def of(figures):
    found = {"allocated": figures["peak_allocated"], "reserved": figures["peak_reserved"]}
    return found | ({"launches": total(figures["launches"])} if figures.get("launches") else {})


def time_rows(folders, planner):
    found = []
    for label, row in read(folders, "times.jsonl").items():
        if "failed" in row:
            continue
        measured = {"allocated": row["peak_allocated"], "reserved": row["peak_reserved"],
                    "time": min(row["median_seconds"], row.get("loop_seconds", row["median_seconds"]))}
        found.append({"label": label, "case": row["case"], "row": row, "measured": measured})
    for row, plan in zip(found, planned(planner, [(r["case"], {}) for r in found])):
        row["planned"] = plan
    return found


def planned(planner, steps):
    for case, configs in steps:  # files first, by one thread
        planner.file_of(case, configs)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda step: planner.plan(*step), steps))


def percent(measured, expected):
    return 100.0 * (expected - measured) / measured if measured else 0.0


def errors(found, against, figure):
    """[(percent, row)] of rows that have both."""
    return [(percent(row["measured"][figure], row[against][figure]), row) for row in found
            if figure in row["measured"] and figure in row.get(against, {})]


def line(name, errs):
    off = sorted(abs(e) for e, _ in errs)
    if not off:
        return f"| {name} | 0 | | | |"
    worst = max(errs, key=lambda pair: abs(pair[0]))
    return (f"| {name} | {len(off)} | {statistics.median(off):.3f} % | {off[min(len(off) - 1, int(0.95 * len(off)))]:.3f} % | "
            f"{worst[0]:+.2f} % ({worst[1]['label']}) |")


def summary(memory, times):
    lines = ["| figure, beside what | steps | median | 95 % of them | worst |", "|---|---|---|---|---|"]
    for figure in ("allocated", "reserved", "launches"):
        for against in ("stored", "planned"):
            lines.append(line(f"{figure}, {against}", errors(memory, against, figure)))
    lines.append(line("time, planned", errors(times, "planned", "time")))
    lines.append(line("allocated of timed steps, planned", errors(times, "planned", "allocated")))
    return lines


def overheads(times):
    """What checkpointing costs, of steps that differ in it alone: measured and planned percent."""
    by_rest = {}
    for row in times:
        if "time" in row["planned"]:
            by_rest.setdefault(json.dumps({k: v for k, v in row["case"].items() if k != "ac"}), {})[row["case"]["ac"]] = row
    lines = ["| step | measured | planned |", "|---|---|---|"]
    for rest, modes in by_rest.items():
        for mode, row in modes.items():
            if mode != "none" and "none" in modes:
                cost = [100 * (row[k]["time"] / modes["none"][k]["time"] - 1) for k in ("measured", "planned")]
                lines.append(f"| {cases.name_of(json.loads(rest))}: {mode} over none | {cost[0]:+.1f} % | {cost[1]:+.1f} % |")
    return lines


def beyond(memory, times, mechanisms):
    lines = ["| row | figure | measured | expected | by | error | mechanism |", "|---|---|---|---|---|---|---|"]
    for found, figures in ((memory, ("allocated", "reserved", "launches")), (times, ("time",))):
        for figure in figures:
            for against in ("stored", "planned"):
                for off, row in errors(found, against, figure):
                    if abs(off) > BOUNDS[figure]:
                        why = next((text for key, text in mechanisms.items() if key in row["label"]), "not explained")
                        lines.append(f"| {row['label']} | {figure} | {row['measured'][figure]:.6g} | {row[against][figure]:.6g} | "
                                     f"{against} | {off:+.2f} % | {why} |")
    return lines


def failures(folders):
    return [f"* {label}: {row['failed'][:300]}" for name in ("peaks.jsonl", "times.jsonl", "trainer.jsonl")
            for label, row in read(folders, name).items() if "failed" in row]


def trainer_lines(folders):
    lines = ["| row | seconds | planned | peak allocated | planned |", "|---|---|---|---|---|"]
    for label, row in read(folders, "trainer.jsonl").items():
        if "median_seconds" in row and row["median_seconds"]:
            cells = [row["median_seconds"], row.get("planned_seconds"), row.get("peak_allocated") or row.get("peak_beyond_inputs"),
                     row.get("planned_allocated")]
            lines.append(f"| {label} | " + " | ".join("" if c is None else f"{c:,}" if isinstance(c, int) else f"{c:.4g}" for c in cells) + " |")
    return lines


def exact(memory):
    """Differences from what is stored: bytes, and launches but for FSDP2's, whose collectives nothing answers."""
    different = []
    for row in memory:
        keys = ["peak_allocated", "peak_reserved", "first_step_peak", "allocated", "reserved"]
        keys += ["launches"] if row["job"]["world"] == 1 else []
        for key in keys:
            if row["figures"].get(key) != row["job"]["stored"].get(key):
                different.append(f"{row['label']}: {key}: {row['figures'].get(key)}, stored {row['job']['stored'].get(key)}")
    print(f"{len(memory)} cases, {len(different)} figures differ from what is stored")
    print("\n".join(different))
    return 1 if different or not memory else 0


def write(folders, environment, memory, times):
    folder = ROOT / "docs/measured" / environment["gpu"]
    folder.mkdir(parents=True, exist_ok=True)
    why = folder / "mechanisms.json"
    mechanisms = json.loads(why.read_text()) if why.exists() else {}
    for name in ("env.json", "peaks.jsonl", "times.jsonl", "tests.txt", "trainer.jsonl", "device.json"):
        for number, source in enumerate(folders):
            if (source / name).exists():
                stem, _, ending = name.partition(".")
                shutil.copy(source / name, folder / (name if number == 0 else f"{stem}-{number + 1}.{ending}"))
    plots.write(folder / "memory.svg", "peak allocated, GiB", [(r["measured"]["allocated"] / 2**30, r["planned"]["allocated"] / 2**30)
                                                              for r in memory if "allocated" in r["planned"]])
    plots.write(folder / "times.svg", "step, ms", [(1e3 * r["measured"]["time"], 1e3 * r["planned"]["time"])
                                                   for r in times if "time" in r["planned"]])
    machine = environment.get("machine", {})
    failed = failures(folders)
    text = ["# Measured on " + machine.get("gpu", environment["gpu"]), "",
            "Made by `bench/gpu/compare.py --write`; nothing here is typed by hand but mechanisms.json. A positive error:",
            "what was expected is more than what was measured.", "",
            ", ".join(f"{key}: {value}" for key, value in machine.items() if key not in ("gpu", "executable")), "",
            *summary(memory, times), "", "![peaks](memory.svg) ![times](times.svg)", "", "## What checkpointing costs", "",
            *overheads(times), "", "## The trainer, and the loss alone", "", *trainer_lines(folders), "", "## Beyond the bounds", "",
            *beyond(memory, times, mechanisms), "", f"## What failed ({len(failed)})", "", *failed, ""]
    (folder / "README.md").write_text("\n".join(text))
    print(f"written: {folder.relative_to(ROOT)}/README.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/ac-advisor")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--exact", action="store_true")
    a = parser.parse_args()
    for folder in a.folders:
        if not (folder / "env.json").exists():
            sys.exit(f"error: {folder}/env.json: no such file; DIR is what bench/gpu/run.sh --out has written")
    environment = json.loads((a.folders[0] / "env.json").read_text())
    if environment["emulated"] and a.write:
        sys.exit("error: --write: this run was emulated; docs/measured/ is of real devices")
    if a.exact:
        sys.exit(exact(measured_rows(a.folders)))
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(a.program.resolve(), environment["gpu"], folder)
        memory = memory_rows(a.folders, planner)
        times = time_rows(a.folders, planner)
    print("\n".join([*summary(memory, times), "", *overheads(times), "", *trainer_lines(a.folders), "", *beyond(memory, times, {}),
                     "", *failures(a.folders)]))
    if a.write:
        write(a.folders, environment, memory, times)


if __name__ == "__main__":
    main()
