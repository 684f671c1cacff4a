"""What Megatron-LM's own parser makes of arguments: those of its functional tests, and drawn ones.

    python megatron_arguments.py megatron_arguments.json MEGATRON_LM

MEGATRON_LM: its repository at core_v0.19.0. No device is needed. tests/intake/megatron_test.cpp compares ours.
Written are the values of `mapped` keys that differ from the parser's defaults, null where it drops a key, or why it refuses them.
"""

import contextlib
import io
import json
import random
import sys
from pathlib import Path

sys.path.insert(1, sys.argv[2])
import training_files
import yaml

HEADS = {512: 8, 1024: 16, 2048: 16, 4096: 32}


def functional_tests(folder):
    """The arguments of its functional tests of GPT; what the tests' launcher fills in is a name."""
    for path in sorted(folder.glob("tests/functional_tests/test_cases/*/*/model_config.yaml")):
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        arguments = config.get("MODEL_ARGS")
        if not isinstance(arguments, dict) or "--num-layers" not in arguments or path.parent.parent.name not in ("gpt", "moe", "mixtral"):
            continue
        if any(word in path.parent.name for word in ("inference", "rl_", "grpo", "mamba", "hybrid", "bert", "t5")):
            continue
        words = []
        for name, value in arguments.items():
            if value is False or value is None:
                continue
            words.append(name)
            if value is not True:
                text = str(value)
                if text.startswith("[") and name != "--moe-layer-freq":  # as its launcher writes lists
                    text = text.strip("[]").replace(",", " ")
                words += [str(item) for item in value] if isinstance(value, list) else text.split()
        environment = {name: str(value) for name, value in (config.get("ENV_VARS") or {}).items()}
        yield f"{path.parent.parent.name}/{path.parent.name}", words, environment


def drawn(seed):
    """A command of a training, of sizes and layouts that go together or not."""
    draw = random.Random(seed)
    maybe = lambda words, chance=0.5: words if draw.random() < chance else []  # noqa: E731
    one = draw.choice
    hidden, layers = one(list(HEADS)), one([4, 8, 12, 24])
    tp, pp, cp = one([1, 1, 2, 4]), one([1, 1, 2, 4]), one([1, 1, 1, 2])
    micro, steps = one([1, 2, 4]), one([1, 4, 8])
    world = one([8, 16])
    replicas = max(world // (tp * pp * cp), 1)
    seq = one([1024, 2048, 4096])
    words = [f"--num-layers={layers}", "--hidden-size", str(hidden), "--num-attention-heads", str(HEADS[hidden])]
    words += ["--max-position-embeddings", str(one([seq, 2 * seq])), "--seq-length", str(seq), "--micro-batch-size", str(micro)]
    words += maybe(["--global-batch-size", str(micro * replicas * steps)], 0.8)
    words += one([["--bf16"], ["--bf16"], ["--bf16", "--accumulate-allreduce-grads-in-fp32"], ["--fp16"]])
    words += ["--tensor-model-parallel-size", str(tp), "--pipeline-model-parallel-size", str(pp)]
    words += maybe(["--sequence-parallel"]) + maybe(["--use-distributed-optimizer"]) + maybe(["--overlap-grad-reduce"], 0.3)
    words += ["--context-parallel-size", str(cp)] if cp > 1 else []
    virtual = [["--num-virtual-stages-per-pipeline-rank", "2"], ["--num-layers-per-virtual-pipeline-stage", one("12")]]
    words += maybe(one(virtual)) if pp > 1 else maybe(virtual[0], 0.05)
    words += maybe(["--decoder-first-pipeline-num-layers", "1"], 0.2) if pp == 2 else []
    words += maybe(["--group-query-attention", "--num-query-groups", one(["2", "4"])], 0.4) + maybe(["--num-query-groups", "2"], 0.1)
    rotary = ["--position-embedding-type", "rope"] + maybe(["--rotary-base", one(["500000", "1e6"])], 0.3) + maybe(["--rotary-percent", "0.5"], 0.3)
    words += one([[], ["--use-rotary-position-embeddings", "--no-position-embedding"], rotary, rotary + ["--no-rope-fusion"]])
    words += one([[], ["--swiglu"], ["--swiglu", "--ffn-hidden-size", "5504"], ["--squared-relu"], [f"--ffn-hidden-size={3 * hidden}"]])
    words += maybe(["--disable-bias-linear"]) + maybe(["--add-qkv-bias"], 0.2) + maybe(["--untie-embeddings-and-output-weights"])
    words += maybe(["--normalization", "RMSNorm"]) + maybe(["--norm-epsilon", "1e-6"], 0.2) + maybe(["--kv-channels", "128"], 0.2)
    words += maybe(["--hidden-dropout", "0.0", "--attention-dropout=0"]) + maybe(["--qk-layernorm"], 0.2)
    words += one([[], ["--attention-backend", one(["auto", "flash", "fused", "unfused"])]]) + maybe(["--transformer-impl", "local"], 0.2)
    words += one(
        [[], [], ["--recompute-activations"], ["--recompute-granularity", "selective", "--recompute-modules", "core_attn", "layernorm"],
         ["--recompute-granularity", "full", "--recompute-method", one(["uniform", "block"]), "--recompute-num-layers", one("12")]]
    )
    words += one([[], [], ["--fp8-format", "hybrid"], ["--fp8-format", "e4m3", "--fp8-recipe", one(["tensorwise", "delayed", "blockwise"])]])
    words += maybe(["--cross-entropy-loss-fusion"] + maybe(["--cross-entropy-fusion-impl", "native"]), 0.3)
    words += maybe(["--no-gradient-accumulation-fusion"], 0.3) + maybe(["--deterministic-mode"], 0.1) + maybe(["--clip-grad", one(["0.5", "0"])], 0.3)
    words += ["--vocab-size", one(["50257", "32000"]), "--tokenizer-type", "NullTokenizer", "--mock-data"]
    words += maybe(["--make-vocab-size-divisible-by", one(["128", "256", "1024"])], 0.3)
    if draw.random() < 0.3:
        words += ["--num-experts", "8", "--moe-router-load-balancing-type", one(["aux_loss", "seq_aux_loss", "none"])]
        words += maybe(["--moe-aux-loss-coeff", "1e-2"]) + maybe(["--moe-grouped-gemm"]) + maybe(["--moe-ffn-hidden-size", "1408"])
        words += ["--expert-model-parallel-size", one("124")] + maybe(["--expert-tensor-parallel-size", "1"])
        words += maybe(["--moe-token-dispatcher-type", "alltoall"] + maybe(["--moe-permute-fusion"])) + maybe(["--moe-router-dtype", "fp32"])
        words += maybe(["--moe-layer-freq", one(["2", f"[0]*1+[1]*{layers - 1}", "([1]*1+[0]*1)*" + str(layers // 2)])])
    words += maybe(["--save", "checkpoints", "--save-interval", "500"]) + maybe(["--num-distributed-optimizer-instances", "2"], 0.05)
    return words, world, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


def row(name, words, world, environment, defaults):
    environment = {key: value for key, value in environment.items() if key in ("CUDA_DEVICE_MAX_CONNECTIONS", "CUBLAS_WORKSPACE_CONFIG")}
    said = {"name": name, "world": world, "arguments": words}
    errors = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            values = training_files.parsed_by_megatron(words, world, environment)
    except (Exception, SystemExit) as error:
        why = str(error) if not isinstance(error, SystemExit) else errors.getvalue().strip().splitlines()[-1]
        return said | {"refused": why[:200]}
    plain = {}  # None: its parser has let go of it
    for key in defaults:
        value = values.get(key) if key not in values or not isinstance(values[key], list) else f"[{', '.join(map(str, values[key]))}]"
        plain[key] = str(value) if key in values else None
    named = {key for key in plain if key == key.lower() and not key.startswith("--") and key != "megatron"}
    return said | {"values": {key: plain[key] for key in sorted(named) if plain[key] != defaults[key]}}


def main():
    out, folder = Path(sys.argv[1]), Path(sys.argv[2])
    known = json.loads((training_files.ROOT / "data/tools/megatron.json").read_text())
    defaults = {key: default["value"] for key, default in known["defaults"].items()}
    cases = [(name, words, 8, environment) for name, words, environment in functional_tests(folder)]
    cases += [(f"drawn-{seed}", *drawn(seed)) for seed in range(200)]
    rows = [row(name, words, world, environment, defaults) for name, words, world, environment in cases]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    out.write_text(f'{{\n "version": "{known["version"]}",\n "cases": [\n{lines}\n ]\n}}\n')
    print(len(rows), sum("values" in row for row in rows))


if __name__ == "__main__":
    main()
