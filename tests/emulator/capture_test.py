"""Each example of examples/graphs/ is captured, planned and run for real on the emulated device.

    capture_test.py AC_ADVISOR PYTHON SOURCE EXAMPLE

The plan's allocated peak must be within 0.1 % of what PyTorch's own counter says of the step, without a checkpoint
and, where the model has blocks, with them; and within 0.1 % of what tests/oracle/graph_peaks.json has of the steps
that FSDP2 and HSDP shard. Those of SCALED are captured once more with --scale and planned at the sizes that it has of
them.
"""

import json
import os
import subprocess
import sys
import tempfile

SCALED = {"my_model", "recommender"}  # such a capture takes as long as 8 to 17 others

program, python, source, example = sys.argv[1:]
oracle = os.path.join(source, "tests", "oracle")
environment = os.environ | {"PYTHONPATH": oracle}
sys.path.insert(0, oracle)
from graph_plans import label, options_of  # noqa: E402


def run(*command):
    return subprocess.run(command, check=True, env=environment, cwd=oracle, stdout=subprocess.PIPE, text=True).stdout


def cases_of(path, wanted):
    with open(path) as file:
        found = [one for one in json.load(file)["cases"] if one["case"]["model"] == example and wanted(one["case"])]
    assert found, f"no case of {example}"
    return found


with tempfile.TemporaryDirectory() as folder:
    peaks = os.path.join(folder, "peaks.json")
    run(program, "dryrun", "--output", os.devnull, "--", python, "graph_peaks.py", peaks, "--only", f"model={example} ")
    cases = cases_of(peaks, lambda case: set(case) == {"model", "batch", "seq", "ac"})
    known = os.path.join(oracle, "graph_peaks.json")
    cases += cases_of(known, lambda case: case.get("shard", "ddp") != "ddp")
    sizes = cases[0]["case"]

    def captured(name, *options):
        graph = os.path.join(folder, name)
        run(program, "import", "--", python, "-m", "ac_advisor.capture", f"graph_cases:{example}",
            "--batch", str(sizes["batch"]), "--seq", str(sizes["seq"]), "--output", graph, *options)
        return graph

    graph = captured("graph.json")
    planned_of = [(graph, one) for one in cases]
    if example in SCALED:
        others = cases_of(known, lambda case: "scaled" in case)
        graph = captured("scaled.graph.json", "--scale", others[0]["case"]["scaled"])
        planned_of += [(graph, one) for one in others]
    for graph, one in planned_of:
        profile = json.loads(run(program, "plan", graph, *options_of(one["case"]), "--format", "json"))
        planned, counted = profile["memory"]["peak_allocated_bytes"], one["peak_allocated"]
        print(f"{label(one['case'])}: planned {planned}, PyTorch {counted}")
        assert abs(planned - counted) <= 0.001 * counted
