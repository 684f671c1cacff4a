"""lit-gpt's own model with its adapters, as `ac-advisor import` captures it.

    LITGPT_MODEL=phi-1_5 LITGPT_QUANTIZE=none PYTHONPATH=LITGPT:. ac-advisor import --gpu a100-40gb -- \
        python -m ac_advisor.capture litgpt_graph:make_model --batch 1 --seq 1044 --output phi.graph.json
    ac-advisor plan phi.graph.json --optimizer adamw-foreach --gpu a100-40gb

Packages as litgpt_lora.py tells. The model is made as finetune/lora.py and Lightning Fabric make it: buffers stay in
fp32, and the logits, chunks of 128 tokens, leave the model in fp32 (HalfPrecision.convert_output).
"""

import contextlib
import os

import bitsandbytes
import torch
from lightning.fabric.plugins import BitsandbytesPrecision
from lit_gpt.lora import GPT, Config, mark_only_lora_as_trainable
from lit_gpt.utils import chunked_cross_entropy

from litgpt_lora import MatMul4Bit

CHUNK = 128


class Converted(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return [logits.float() for logits in self.model(ids, lm_head_chunk_size=CHUNK)]


@contextlib.contextmanager
def bf16():
    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(torch.float32)


def make_model(batch, seq):
    quantize = os.environ["LITGPT_QUANTIZE"]
    bitsandbytes.matmul_4bit = lambda a, b, quant_state, bias=None: MatMul4Bit.apply(a, b.view(1, -1), bias, quant_state)
    made = bf16() if quantize == "none" else BitsandbytesPrecision(quantize, torch.bfloat16).module_init_context()
    with made:
        model = GPT(Config.from_name(os.environ["LITGPT_MODEL"], r=8, alpha=16, dropout=0.05, to_query=True, to_value=True))
    mark_only_lora_as_trainable(model)
    model.max_seq_length = seq
    ids = torch.randint(100, (batch, seq))

    def loss(logits):
        logits[-1] = logits[-1][..., :-1, :]
        return chunked_cross_entropy(logits, ids[..., 1:])

    return Converted(model), {"ids": ids}, loss
