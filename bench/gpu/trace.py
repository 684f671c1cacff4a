#!/usr/bin/env python3
"""What recording costs (CUPTI's activities on the same step), and the gaps between launches with and
without a CUDA graph."""

import json

import advisor
from part import Part, arguments, output_of, percent


def main():
    a = arguments()
    part = Part("trace", a, "What recording costs, and gaps between launches")
    options = {"--ac": "full", "--loss": "lc-ce", "--kernels": "fused", "--steps": 3 if a.quick else 6, "--no-parity": True}
    plain = {}
    for label, graph in (("kernel by kernel", {}), ("as a CUDA graph", {"--cuda-graph": "step"})):
        def untraced():
            plain[label] = advisor.measure(a, a.model, options | graph, options["--steps"])["time"]["step_seconds"]
            return {"step_seconds": plain[label]}

        def traced():
            file = a.out / ("trace-graph.json" if graph else "trace.json")
            command = [a.build / "ac-advisor", "trace", "--output", file, "--", a.build / "ac-advisor", "measure"]
            said = output_of(command + advisor.words(a, a.model, options | graph), 300)
            seconds = json.loads(said[said.index("{"):])["time"]["step_seconds"]
            row = {"step_seconds": seconds, "overhead_percent": percent(plain.get(label), seconds)}
            found = json.loads(output_of([a.build / "ac-advisor", "diagnose", file, "--format", "json"], 120))
            return row | {k: v for k, v in found.items() if isinstance(v, (int, float))}

        part.row(label, untraced)
        part.row(label + ", recorded", traced)
    part.write()


main()
