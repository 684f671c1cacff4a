#!/usr/bin/env python3
"""The tests that need a GPU (tests/gpu): all of them, and what failed."""

import subprocess

from part import Part, arguments, whole


def main():
    a = arguments()
    part = Part("tests", a, "Tests on the GPU")
    program = a.build / "gpu_tests"

    def names():
        said = subprocess.run([program, "--list-test-cases", "--no-intro"], capture_output=True, text=True, timeout=60, check=True)
        return [line for line in said.stdout.splitlines() if line.startswith("gpu: ")]

    def run(name):
        # One process each: after an illegal access a process's device is of no more use.
        said = subprocess.run([program, "-tc=" + name.replace(",", "\\,"), "-s=0"], capture_output=True, text=True,
                              timeout=max(30, part.time_left()))
        log.append(f"=== {name}\n{said.stdout}{said.stderr}")
        whole(a.out / "tests.txt", "\n".join(log))
        if "not run: no CUDA device" in said.stdout:
            raise RuntimeError("no CUDA device")
        if said.returncode != 0 or "| 1 passed |" not in said.stdout:  # a name that matches nothing passes too
            raise RuntimeError(f"exit code {said.returncode}: " + said.stdout.strip()[-300:])
        return {"passed": "yes"}

    log = []
    a.out.mkdir(parents=True, exist_ok=True)
    for name in names():
        part.row(name, lambda: run(name))
    part.write()


main()
