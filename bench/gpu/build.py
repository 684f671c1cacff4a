#!/usr/bin/env python3
"""Configures and builds this project against the installed torch, with every core."""

import os
import pathlib
import time

from part import ROOT, Part, arguments, output_of


def torch_folder():
    import torch
    return str(pathlib.Path(torch.__file__).parent)


def main():
    a = arguments()
    part = Part("build", a, "The build on this machine")
    packed = ROOT / "bench/gpu/packed"

    def configure():
        words = ["cmake", "-S", ROOT, "-B", a.build, "-DCMAKE_BUILD_TYPE=Release",
                 f"-DAC_ADVISOR_LIBTORCH={os.environ.get('AC_ADVISOR_LIBTORCH') or torch_folder()}",
                 # Another compiler than the usual one may warn of more.
                 "-DAC_ADVISOR_WERROR=OFF", "-DAC_ADVISOR_PACKAGE_TESTS=OFF", "-DAC_ADVISOR_BENCH=OFF"]
        if packed.exists():
            words.append(f"-DCMAKE_PREFIX_PATH={packed / 'usr'}")
        words += [w for w in a.cmake_options.split() if w]
        start = time.monotonic()
        said = output_of(words, 300)
        found = [line for line in said.splitlines() if "left out" in line]
        return {"seconds": time.monotonic() - start, "left_out": "; ".join(found) or "nothing"}

    def build(target):
        start = time.monotonic()
        output_of(["cmake", "--build", a.build, "--parallel", os.cpu_count(), "--target", target], 580)
        return {"seconds": time.monotonic() - start}

    part.row("configure", configure)
    for target in ("programs", "gpu_tests") + (() if a.quick else ("device_kernels_bench", "trainer_tests")):
        part.row(target, lambda: build(target))
    part.write()


main()
