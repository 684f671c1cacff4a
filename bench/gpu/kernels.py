#!/usr/bin/env python3
"""This project's CUDA kernels beside PyTorch's: what build/release/device_kernels_bench prints."""

from part import Part, arguments, output_of, whole


def main():
    a = arguments()
    part = Part("kernels", a, "Kernels")

    def run():
        said = output_of([a.build / "device_kernels_bench"] + (["--quick"] if a.quick else []), max(30, part.time_left()))
        a.out.mkdir(parents=True, exist_ok=True)
        whole(a.out / "kernels.txt", said)
        return {"lines": len(said.splitlines()), "in": "kernels.txt"}

    part.row("device_kernels_bench", run)


main()
