"""A Hugging Face model of a family without a row: T5, an encoder and a decoder, both of --seq tokens."""

import torch
import transformers


def make_model(batch, seq):
    config = transformers.T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8,
                                   decoder_start_token_id=0, pad_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).bfloat16()
    ids, labels = torch.randint(1, 32128, (batch, seq)), torch.randint(1, 32128, (batch, seq))
    return model, {"input_ids": ids, "labels": labels, "use_cache": False}, None
