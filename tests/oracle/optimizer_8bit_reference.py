"""Three steps of AdamW with moments in 8 bits on tensors of three sizes, by bitsandbytes (its CPU backend) and by
torchao (its update as it is written, not compiled): the tensors after each step, and the moments at the end. Writes
optimizers/<name>.safetensors beside this script; with --check it compares instead of writing.

    python optimizer_8bit_reference.py [--check]

Needs torch==2.11.0, bitsandbytes==0.50.0, torchao==0.18.0 and safetensors.
"""

import pathlib
import sys

import bitsandbytes
import torch
from safetensors.torch import load_file, save_file
from torchao.optim import AdamW8bit

HERE = pathlib.Path(__file__).resolve().parent
# Whole blocks of 256; a last block that is not whole, which torchao leaves in fp32; too small for either.
SIZES = (4864, 4100, 300)
STEPS = 3
SETTINGS = dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2)


def inputs():
    generator = torch.Generator().manual_seed(3)
    begin = [torch.randn(n, generator=generator) for n in SIZES]
    gradients = [[0.1 * torch.randn(n, generator=generator) for n in SIZES] for _ in range(STEPS)]
    for of_step in gradients:
        of_step[0][512:768] = 0  # a block without gradients, as of words that no text has
    return begin, gradients


def of_bitsandbytes(parameters):
    optimizer = bitsandbytes.optim.AdamW8bit(parameters, **SETTINGS)

    def moments():
        for i, p in enumerate(parameters):
            state = optimizer.state[p]
            for k in ("1", "2"):
                yield f"{i}.codes{k}", state["state" + k]
                if "absmax" + k in state:
                    yield f"{i}.scales{k}", state["absmax" + k]
                    yield f"map{k}", state["qmap" + k]

    return optimizer, moments


def of_torchao(parameters):
    torch.compile = lambda function, **_: function
    optimizer = AdamW8bit(parameters, **SETTINGS)

    def moments():
        for i, p in enumerate(parameters):
            for k, name in (("1", "exp_avg"), ("2", "exp_avg_sq")):
                state = optimizer.state[p][name]
                if type(state) is torch.Tensor:
                    yield f"{i}.codes{k}", state
                    continue
                yield f"{i}.codes{k}", state.codes
                yield f"{i}.scales{k}", state.scale
                yield f"map{k}", state.qmap

    return optimizer, moments


def reference(make):
    begin, gradients = inputs()
    parameters = [torch.nn.Parameter(p.clone()) for p in begin]
    optimizer, moments = make(parameters)
    kept = {f"{i}.begin": p for i, p in enumerate(begin)}
    for step, of_step in enumerate(gradients):
        for i, (p, g) in enumerate(zip(parameters, of_step)):
            p.grad = g.clone()
            kept[f"{i}.gradient.{step}"] = g
        optimizer.step()
        for i, p in enumerate(parameters):
            kept[f"{i}.after.{step}"] = p.detach().clone()
    return kept | {name: t.detach().clone().flatten() for name, t in moments()}


def main():
    torch.set_num_threads(1)
    worst = 0.0
    for name, make in (("adamw_8bit", of_bitsandbytes), ("adamw_8bit_torchao", of_torchao)):
        kept = reference(make)
        path = HERE / "optimizers" / f"{name}.safetensors"
        if sys.argv[1:] == ["--check"]:
            written = load_file(path)
            worst = max([worst] + [float((written[k].double() - v.double()).abs().max()) for k, v in kept.items()])
            continue
        path.parent.mkdir(exist_ok=True)
        save_file(kept, path)
        print(name, {k: tuple(v.shape) for k, v in kept.items() if "." not in k or "scales" in k})
    if sys.argv[1:] == ["--check"]:
        print(f"largest difference {worst:.3g}")
        sys.exit(worst > 1e-6)


if __name__ == "__main__":
    main()
