"""The model of these examples: Llama-3.2-1B's shape, or with --tiny one that a test can afford.

Made from a configuration, so that nothing is downloaded; its values mean nothing on an emulated
device anyway.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

VOCABULARY = 128256


def arguments(**defaults):
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true", help="2 layers of 64")
    parser.add_argument("--batch", type=int, default=defaults.get("batch", 8))
    parser.add_argument("--seq", type=int, default=defaults.get("seq", 2048))
    parser.add_argument("--steps", type=int, default=2)
    if "pp" in defaults:
        parser.add_argument("--pp", type=int, default=defaults["pp"], help="stages of a pipeline")
    return parser.parse_args()


def config(tiny):
    if tiny:
        return LlamaConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=160,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            tie_word_embeddings=True,
        )
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        tie_word_embeddings=True,
        max_position_embeddings=131072,
        rope_theta=500000.0,
    )


def model(tiny, device="cuda", dtype=torch.bfloat16):
    with torch.device(device):
        return AutoModelForCausalLM.from_config(
            config(tiny), dtype=dtype, attn_implementation="sdpa"
        ).train()


def tokens(args):
    vocabulary = config(args.tiny).vocab_size
    return torch.randint(0, vocabulary, (args.batch, args.seq), device="cuda")
