"""The tests of tests/gpu, a process each, as after an illegal access a process's device is of no more use; four at a
time beside phase M."""

import concurrent.futures
import re
import threading

from .commands import Failed

AT_ONCE, SECONDS = 4, 60


def names(context, until):
    said = context.run([context.programs() / "gpu_tests", "--list-test-cases", "--no-intro"], 30, until)
    return [line for line in said.splitlines() if line.startswith("gpu: ")]


def passed(text):
    """One test ran, and none failed: a name that matches nothing passes too."""
    return re.search(r"\|\s*1 passed \|\s*0 failed", text) is not None


def run(context, until):
    path = context.out / "tests.txt"
    lock, results = threading.Lock(), []

    def one(name):
        try:
            said = context.run([context.programs() / "gpu_tests", "-tc=" + name.replace(",", "\\,"), "--no-colors"], SECONDS, until)
            verdict = "passed" if passed(said) and "not run:" not in said else "failed"
        except Failed as error:
            said, verdict = str(error), "failed"
        with lock, open(path, "a") as file:
            results.append(verdict)
            file.write(f"=== {verdict}: {name}\n" + ("" if verdict == "passed" else said.strip() + "\n"))

    try:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, names(context, until)))
    except Exception as error:  # noqa: BLE001  the other phases go on
        path.write_text(f"=== failed: {error}\n")
    context.log(f"tests: {results.count('passed')} passed, {results.count('failed')} failed")
