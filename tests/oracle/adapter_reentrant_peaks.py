"""Writes adapter_reentrant_peaks.json, as adapter_peaks.py does its own: adapters under reentrant checkpoints, as PEFT's
prepare_model_for_kbit_training switches them on without being asked, and transformers before 5.0.

    TORCH_CUDNN_SDPA_DEPRIORITIZED=1 ac-advisor dryrun --gpu h100-80gb -- python adapter_reentrant_peaks.py OUTPUT.json
"""

import sys

from adapter_cases import ALL, MODELS, label
from adapter_peaks import measure, write

REENTRANT = {"batch": 2, "seq": 1024, "lora": 16, "ac": "full", "ac_reentrant": True}
KBIT = {"kbit_prepare": True, "autocast": "bf16"}


def cases():
    for model in ("llama1b", "qwen2", "mistral", "qwen3"):
        for options in ({"quantize": "int8"} | KBIT | ALL, {"quantize": "int8"} | KBIT, {"quantize": "nf4"} | KBIT | ALL,
                        ALL, {"autocast": "bf16", "param_dtype": "bf16"} | ALL, {"quantize": "nf4"} | ALL):
            yield label(model, REENTRANT | options), MODELS[model], REENTRANT | options
    for more in ({"grad_accum": 2}, {"seq": 777}, {"lora_dropout": 0.05}):
        options = REENTRANT | {"quantize": "int8"} | KBIT | ALL | more
        yield label("llama1b", options), MODELS["llama1b"], options


def main(output):
    written = []
    for name, config, options in cases():
        figures = measure(config, options)
        print(name, figures["allocated"], figures["reserved"], file=sys.stderr, flush=True)
        written.append({"label": name, "config": config, "options": options, **figures})
        write(output, written)


if __name__ == "__main__":
    main(sys.argv[1])
