"""Each example of examples/graphs/ is captured, planned and run for real on the emulated device.

    capture_test.py AC_ADVISOR PYTHON SOURCE EXAMPLE

The plan's allocated peak must be within 1 % of what PyTorch's own counter says of the step, without a checkpoint
and, where the model has blocks, with one around each.
"""

import json
import os
import subprocess
import sys
import tempfile

program, python, source, example = sys.argv[1:]
oracle = os.path.join(source, "tests", "oracle")
environment = os.environ | {"PYTHONPATH": oracle}


def run(*command):
    return subprocess.run(command, check=True, env=environment, cwd=oracle, stdout=subprocess.PIPE, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    peaks = os.path.join(folder, "peaks.json")
    run(program, "dryrun", "--output", os.devnull, "--", python, "graph_peaks.py", peaks, "--only", f"model={example} ")
    with open(peaks) as file:
        cases = [c for c in json.load(file)["cases"] if set(c["case"]) == {"model", "batch", "seq", "ac"}]
    assert cases, f"no case of {example}"
    graph = os.path.join(folder, "graph.json")
    sizes = cases[0]["case"]
    run(program, "import", "--", python, "-m", "ac_advisor.capture", f"graph_cases:{example}",
        "--batch", str(sizes["batch"]), "--seq", str(sizes["seq"]), "--output", graph)
    for one in cases:
        profile = json.loads(run(program, "plan", graph, "--ac", one["case"]["ac"], "--format", "json"))
        planned, counted = profile["memory"]["peak_allocated_bytes"], one["peak_allocated"]
        print(f"{example} --ac {one['case']['ac']}: planned {planned}, PyTorch {counted}")
        assert abs(planned - counted) <= 0.01 * counted
