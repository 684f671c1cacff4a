"""As torchtune_layers_peaks.py, of models as torchtune 0.6.1's own builders make them (phi3, gemma2, and with adapters
llama3_1 and qwen2 too), drawn.

    ac-advisor dryrun [--world N] --output /dev/null -- python torchtune_builders_peaks.py torchtune_builders_peaks.json

Needs torchtune 0.6.1, torchao 0.13.0 and what they import on PYTHONPATH.
"""

import random
import sys

import torchtune.modules.peft as peft
from torchtune.models import gemma2, llama3_2, phi3, qwen2

import emulated_peaks
from emulated_cases import config_of
from torchtune_peaks import of_own_layers, steps

# torchtune's names of what an adapter is put beside.
ATTENTION = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "o_proj": "output_proj"}
WITH_MLP = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
BUILDERS = {"phi3": (phi3.phi3, phi3.lora_phi3), "gemma2": (gemma2.gemma2, gemma2.lora_gemma2),
            "llama": (llama3_2.llama3_2, llama3_2.lora_llama3_2), "qwen2": (qwen2.qwen2, qwen2.lora_qwen2)}


def arguments_of(c):
    """Of every builder, and of some."""
    kind = c["model_type"]
    same = {"vocab_size": c["vocab_size"], "num_layers": c["num_hidden_layers"], "num_heads": c["num_attention_heads"],
            "num_kv_heads": c["num_key_value_heads"], "embed_dim": c["hidden_size"],
            "intermediate_dim": c["intermediate_size"], "max_seq_len": c["max_position_embeddings"]}
    more = {"gemma2": lambda: {"head_dim": c["head_dim"], "hidden_capping_value": c["attn_logit_softcapping"],
                               "final_capping_value": c["final_logit_softcapping"],
                               "sliding_window_size": c["sliding_window"],
                               "query_pre_attn_scalar": c["query_pre_attn_scalar"]},
            "qwen2": lambda: {"tie_word_embeddings": c["tie_word_embeddings"]}}
    return same | more.get(kind, dict)()


def decoder_of(entry):
    c = config_of(entry["model"])
    whole, adapted = BUILDERS[c["model_type"]]
    if not entry.get("lora"):
        return whole(**arguments_of(c))
    targets = entry["lora_targets"].split(",")
    decoder = adapted(lora_attn_modules=[ATTENTION[t] for t in targets if t in ATTENTION],
                      apply_lora_to_mlp="gate_proj" in targets, lora_rank=entry["lora"], lora_alpha=2 * entry["lora"],
                      **arguments_of(c))
    peft.set_trainable_params(decoder, peft.get_adapter_params(decoder))
    return decoder


def build(entry, on_loss):
    return of_own_layers(decoder_of, entry, on_loss)


def cases():
    draw = random.Random("torchtune's builders")
    worlds = [{}, {}, {"world": 2, "shard": "fsdp2"}, {"world": 8, "shard": "fsdp2"}, {"world": 8, "shard": "fsdp2"}]
    targets = ("q_proj,v_proj", "q_proj,v_proj,o_proj", WITH_MLP)
    models = ["phi3_mini_4layers"] * 12 + ["gemma2_2b_4layers"] * 12 + ["llama1b_4layers", "qwen2_05b_4layers"] * 4
    for number, model in enumerate(models):
        batch, seq = draw.choice(((1, 2048), (2, 1024), (3, 1000), (4, 512), (1, 4096)))
        seq = min(seq, config_of(model)["max_position_embeddings"])  # TransformerDecoder._validate_inputs
        adapts = model.startswith(("llama", "qwen2")) or number % 3 == 2
        more = {"lora": draw.choice((8, 16, 64)), "lora_targets": draw.choice(targets)} if adapts else {}
        if draw.random() < 0.3:
            more["grad_accum"] = 2
        if draw.random() < 0.2:
            more["optimizer"] = "adamw-foreach"
        yield {"model": model, "framework": "torchtune", "batch": batch, "seq": seq,
               "ac": draw.choice(("full", "none")), "loss": "chunked-logits:8"} | worlds[number % 5] | more


def measure(entry):
    return emulated_peaks.measure(entry, build=build, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
