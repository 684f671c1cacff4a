#!/usr/bin/env python3
"""This project's CUDA kernels beside the memory's bandwidth: what build/release/device_kernels_bench prints."""

from part import Part, arguments, device_of, output_of, whole


def main():
    a = arguments()
    part = Part("kernels", a, "Kernels")

    def run():
        peak = device_of(a.gpu)["bandwidth_bytes_per_second"]["value"] / 1e9
        said = output_of([a.build / "device_kernels_bench", "--peak-gbps", peak], max(30, part.time_left()))
        a.out.mkdir(parents=True, exist_ok=True)
        whole(a.out / "kernels.txt", said)
        return {"lines": len(said.splitlines()), "in": "kernels.txt"}

    part.row("device_kernels_bench", run)


main()
