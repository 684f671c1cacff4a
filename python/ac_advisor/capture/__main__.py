"""``python -m ac_advisor.capture MODULE:FUNCTION`` or ``--config FILE``, on the device that ``ac-advisor import``
emulates."""

import argparse
import functools
import importlib
import importlib.util
import json
import os
import sys


def refuse(text):
    """Bad input: exit code 2, as ac-advisor has it."""
    print(f"ac-advisor: {text}", file=sys.stderr)
    sys.exit(2)


if importlib.util.find_spec("torch") is None:
    refuse(f"PyTorch is not installed for {sys.executable}; give another Python after --, or pip install torch")

from .graph import capture  # noqa: E402
from .scale import capture_scaled  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(
        prog="python -m ac_advisor.capture",
        description="Captures the eager CUDA step of a PyTorch model as a graph for ac-advisor.")
    parser.add_argument("model", nargs="?", metavar="MODULE:FUNCTION",
                        help="FUNCTION(batch, seq) makes (module, inputs, loss_fn)")
    parser.add_argument("--config", metavar="FILE", help="in its place a config.json: transformers' model of it")
    parser.add_argument("--batch", type=int, default=1, help="sequences per micro-batch (1)")
    parser.add_argument("--seq", type=int, default=2048, help="tokens per sequence, or what the function takes it for (2048)")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), help="casts parameters and buffers (as they are made); with "
                        "--config what they are made in (bf16)")
    parser.add_argument("--autocast", action="store_true", help="with --config: the forward under torch.autocast in bf16")
    parser.add_argument("--blocks", metavar="REGEX", help="paths of the modules that --ac is to recompute (those that "
                        "are found to repeat)")
    parser.add_argument("--scale", metavar="DIRECTIONS", type=directions, default=(), help="batch, seq or batch,seq: captures "
                        "at more sizes, and --batch and --seq of the plan may be others")
    parser.add_argument("--name", help="of the model in tables (the function's module)")
    parser.add_argument("--output", required=True, metavar="FILE", help="the graph: JSON")
    given = parser.parse_args()
    if (given.model is None) == (given.config is None):
        parser.error("give MODULE:FUNCTION, or --config FILE")
    if given.autocast and given.config is None:
        parser.error("--autocast is of --config; a model of MODULE:FUNCTION has it in its forward")
    return given


def directions(text):
    found = text.split(",")
    if not set(found) <= {"batch", "seq"} or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError("give batch, seq or batch,seq")
    return sorted(found)


def find(model):
    module, separator, function = model.partition(":")
    if not separator:
        refuse(f"{model}: give MODULE:FUNCTION, such as my_model:make_model")
    sys.path.insert(0, os.getcwd())
    if module.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(module)))
        module = os.path.basename(module)[:-3]
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        refuse(f"{model}: there is no module {module} in {os.getcwd()}, nor installed for {sys.executable}")
    if found is None:
        refuse(f"{model}: {module} has no {function}")
    return module, found


def configured(given):
    """Of --config: what makes its model."""
    if importlib.util.find_spec("transformers") is None:
        refuse(f"transformers is not installed for {sys.executable}: pip install transformers")
    from .configuration import Configured, Unplanned
    try:
        return Configured(given.config, given.dtype or "bf16", given.autocast)
    except Unplanned as why:
        refuse(f"{given.config}: {why}")


def main():
    given = arguments()
    if given.config:
        make_model = configured(given)
        name, dtype = make_model.name, None
    else:
        name, make_model = find(given.model)
        dtype = given.dtype
    take = functools.partial(capture, make_model, dtype=dtype, blocks=given.blocks)
    graph = capture_scaled(take, given.batch, given.seq, given.scale) if given.scale else take(given.batch, given.seq)
    graph["name"] = given.name or name
    graph["made_by"] |= make_model.about() if given.config else {"model": given.model}
    temporary = given.output + ".part"
    with open(temporary, "w") as file:
        file.write(json.dumps(graph, separators=(",", ":")) + "\n")  # dump has no encoder in C
    os.replace(temporary, given.output)
    ops = len(graph["micro_batches"][0]["ops"])
    print(f"{given.output}: {ops} ops, {len(graph['parameters'])} parameters", file=sys.stderr)
    for direction, why in graph.get("scale", {}).get("refused", {}).items():
        print(f"--{direction} stays what it is: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
