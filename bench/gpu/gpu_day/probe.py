"""What is here, before anything is measured: versions, whether the carried programs start, a smoke test of the trainer;
if they do not start, a build beside PyTorch's phases."""

import glob
import json
import os
import subprocess
import sys

from .commands import Failed, tail
from .machine import PACKED, ROOT, facts

BUILD = ROOT / "build/gpu-day"


def torch_folder():
    import importlib.util
    return os.path.dirname(importlib.util.find_spec("torch").origin)


def build(context):
    """Configures and builds with every core but those that the phases need."""
    configure = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DAC_ADVISOR_WERROR=OFF",
                 f"-DAC_ADVISOR_LIBTORCH={torch_folder()}", "-DAC_ADVISOR_PACKAGE_TESTS=OFF", "-DAC_ADVISOR_BENCH=OFF",
                 "-DCMAKE_CUDA_ARCHITECTURES=90-real", f"-DCMAKE_PREFIX_PATH={PACKED / 'usr'}"]
    make = ["nice", "cmake", "--build", BUILD, "--target", "programs", "gpu_tests", "device_kernels_bench"]
    script = " && ".join(" ".join(f"'{word}'" for word in words) for words in (configure, make))
    context.log("the carried programs do not start: building here")
    return context.start_process(["bash", "-c", script], stdout=context.log_file, stderr=context.log_file)


def run(context, environment):
    environment["machine"] = facts()
    (context.out / "env.json").write_text(json.dumps(environment, indent=1) + "\n")
    context.log(json.dumps(environment["machine"]))
    if not context.emulated:
        # So that eight workers do not read 4 GB of libraries from a cold disk each.
        libraries = glob.glob(torch_folder() + "/lib/*.so*") + glob.glob(torch_folder() + "/../nvidia/*/lib/*.so*")
        subprocess.Popen(["cat", *libraries], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checks = {"doctor": (["doctor"], 30), "plan": (["plan", "tiny-llama", "--format", "json"], 10),
              "smoke": (["measure", "tiny-llama", "--batch", "2", "--seq", "64", "--steps", "2", "--gpu", context.gpu,
                         "--format", "json", "--emulated" if context.emulated else "--no-parity"], 60)}
    for name, (words, seconds) in checks.items():
        try:
            environment[name] = tail(context.run(context.advisor(*words), seconds), 1500)
        except (Failed, OSError) as error:
            environment[name] = f"failed: {error}"
        context.log(f"{name}: {environment[name][:300]}")
    if not context.emulated and any(environment[name].startswith("failed") for name in ("plan", "smoke")):
        context.building = build(context)
    environment["python"] = sys.executable
    (context.out / "env.json").write_text(json.dumps(environment, indent=1) + "\n")
