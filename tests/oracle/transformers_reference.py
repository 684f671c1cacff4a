"""Tiny models of every family with random weights: their logits, loss and gradients by Hugging Face
transformers, in fp32 on a CPU. Writes models/<family>/{config.json,model.safetensors,
expected.safetensors} beside this script, and of some under torch.autocast in bf16 (autocast.safetensors). With --check
it compares instead of writing.

    python transformers_reference.py [--check] [family ...]

Needs torch==2.11.0, transformers==5.23.0 and safetensors.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
BATCH, SEQ = 2, 24
COMMON = dict(vocab_size=288, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager", use_cache=False)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
FAMILIES = {
    "llama": ("Llama", dict(tie_word_embeddings=True, rope_parameters=LLAMA3)),
    "llama_untied": ("Llama", dict(tie_word_embeddings=False, attention_bias=True, mlp_bias=True, head_dim=12)),
    "mistral": ("Mistral", dict(sliding_window=9)),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True)),
    "qwen3": ("Qwen3", dict(head_dim=16)),
    "gemma2": ("Gemma2", dict(head_dim=12, sliding_window=8, query_pre_attn_scalar=20, final_logit_softcapping=8.0,
                              attn_logit_softcapping=5.0, hidden_activation="gelu_pytorch_tanh")),
    "gemma3_text": ("Gemma3", dict(head_dim=12, sliding_window=8, query_pre_attn_scalar=20,
                                   layer_types=["sliding_attention", "full_attention"])),
    "phi3": ("Phi3", dict(sliding_window=None, pad_token_id=0, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "qwen3_moe": ("Qwen3Moe", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16,
                                   norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[0])),
}

AUTOCAST = ("llama", "qwen3")


def build(name):
    prefix, changes = FAMILIES[name]
    if prefix == "Gemma3":
        config = transformers.Gemma3TextConfig(**(COMMON | changes))
    else:
        config = getattr(transformers, prefix + "Config")(**(COMMON | changes))
    torch.manual_seed(7)
    model = getattr(transformers, prefix + "ForCausalLM")(config)
    model.train()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.3 if parameter.dim() == 1 else 0.15
            offset = parameter.mean() if parameter.dim() == 1 else 0.0
            parameter.copy_(offset + scale * torch.randn_like(parameter))
    return config, model


def under_autocast(name):
    config, model = build(name)
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQ), generator=torch.Generator().manual_seed(11))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    return {"loss": loss.detach()} | {"grad." + n: p.grad.clone().contiguous() for n, p in model.named_parameters()}


def reference(name):
    config, model = build(name)
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQ), generator=torch.Generator().manual_seed(11))
    out = model(input_ids=ids, labels=ids)
    out.loss.backward()
    weights = {n: p.detach().clone().contiguous() for n, p in model.named_parameters()}
    expected = {"ids": ids, "logits": out.logits.detach(), "loss": out.loss.detach()}
    expected |= {"grad." + n: p.grad.clone().contiguous() for n, p in model.named_parameters()}
    return config, weights, expected


def main():
    words = sys.argv[1:]
    check = "--check" in words
    torch.set_num_threads(1)
    worst = 0.0
    for name in [w for w in words if w != "--check"] or FAMILIES:
        config, weights, expected = reference(name)
        folder = HERE / "models" / name
        if check:
            made = {"expected": expected} | ({"autocast": under_autocast(name)} if name in AUTOCAST else {})
            for file, tensors in made.items():
                written = load_file(folder / (file + ".safetensors"))
                for key, value in tensors.items():
                    difference = (written[key].double() - value.double()).norm() / max(value.double().norm(), 1e-30)
                    worst = max(worst, float(difference))
            continue
        folder.mkdir(parents=True, exist_ok=True)
        keep = {k: v for k, v in config.to_dict().items() if v is not None and not k.startswith("_")}
        (folder / "config.json").write_text(json.dumps(keep, indent=2, sort_keys=True) + "\n")
        save_file(weights, folder / "model.safetensors")
        save_file(expected, folder / "expected.safetensors")
        if name in AUTOCAST:
            save_file(under_autocast(name), folder / "autocast.safetensors")
        print(name, float(expected["loss"]), sum(w.numel() for w in weights.values()))
    if check:
        print(f"largest relative difference {worst:.3g}")
        sys.exit(worst > 1e-5)


if __name__ == "__main__":
    main()
