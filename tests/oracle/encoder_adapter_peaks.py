"""As emulated_peaks.py, of adapters and quantized bases of models with an encoder of images that does not run: what PEFT
and bitsandbytes do to its layers. The steps are drawn by a seeded generator; they were measured before they were planned.

    ac-advisor dryrun [--world N] --output /dev/null -- python encoder_adapter_peaks.py encoder_adapter_peaks.json

As graded_peaks.py it ends with 3 after a step that a library ends with an error: start it again.
"""

import random
import sys

import emulated_cases
from emulated_cases import case, label

SEED, DRAWS = 20261130, 40
emulated_cases.VALUES |= {
    "gemma3_4b_encoder_4layers": {
        "model_type": "gemma3",
        "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 4, "num_attention_heads": 8,
                        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
                          "image_size": 896, "patch_size": 14, "vision_use_head": False}},
    "mistral3_encoder_2layers": {
        "model_type": "mistral3",
        "text_config": {"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 2,
                        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072},
        "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}},
}
MODELS = ("gemma3_4b_encoder_4layers", "mistral3_encoder_2layers", "llava15_7b_4layers", "qwen25_vl_3b_4layers",
          "qwen3_vl_8b_4layers")
TARGETS = ("all-linear", "q_proj,v_proj", "q_proj,k_proj,v_proj,o_proj", "gate_proj,up_proj,down_proj")
BASES = ({}, {"quantize": "nf4"}, {"quantize": "nf4", "kbit_prepare": True}, {"quantize": "nf4-double"},
         {"quantize": "int8"}, {"param_dtype": "fp32", "autocast": "bf16"})
SIZES = ((1, 512), (2, 512), (1, 1024))


def drawn():
    """Unlike ones; each model and each base as often as any other."""
    draw, have = random.Random(SEED), set()
    for n in range(DRAWS):
        batch, seq = draw.choice(SIZES)
        entry = case(MODELS[n % len(MODELS)], batch, seq, draw.choice(("none", "full")), lora=draw.choice((8, 16)),
                     lora_targets=draw.choice(TARGETS), lora_dtype=draw.choice(("fp32", "bf16")),
                     **BASES[n // len(MODELS) % len(BASES)])
        if label(entry) not in have:
            have.add(label(entry))
            yield entry


if __name__ == "__main__":
    import packed_flash  # noqa: F401  before transformers
    from blind_finetune_peaks import measure
    from graded_peaks import ended, run

    done = ended(sys.argv[1])
    sys.exit(run(sys.argv[1], [entry for entry in drawn() if label(entry) not in done], measure, __doc__))
