"""What lit-gpt's own finetune/lora.py holds, for the rows of its resource tables.

    PYTHONPATH=LITGPT ac-advisor dryrun --gpu a100-40gb --output /dev/null -- \
        python litgpt_lora.py MODEL none|nf4|nf4-dq MICRO_BATCH LONGEST

LITGPT is a checkout of Lightning-AI/litgpt at 0cc02afa, the commit that published the tables; lightning 2.5.5 and
bitsandbytes 0.50 are installed. The script's main() runs as it is: weights come from a state dict of the checkpoint's
shapes, the data is one sample of LONGEST tokens, which it puts into the first batch, among short ones. Prints
torch.cuda.max_memory_allocated() of the process, as lora.py does at its end.

bitsandbytes 0.41.1, which the tables' runs had, is stood in for by its autograd function: it saves every quantized
layer's input, which its backward does not read (autograd/_functions.py, MatMul4Bit; gone since 0.43.2), and makes the
weight in the dtype that was quantized, fp16 by Fabric, before it casts it.
"""

import sys
import types
from pathlib import Path

import torch

sys.modules["requests"] = types.ModuleType("requests")  # that only a download needs
import bitsandbytes  # noqa: E402
import bitsandbytes.functional as quantization  # noqa: E402
import lightning  # noqa: E402
from finetune import lora  # noqa: E402
from lightning.fabric.plugins import BitsandbytesPrecision  # noqa: E402

MINIBATCH = 128
SHORT = 200


class MatMul4Bit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, bias, state):
        ctx.state = state
        ctx.tensors = (a, b) if any(ctx.needs_input_grad[:2]) else (None, None)
        return torch.nn.functional.linear(a, quantization.dequantize_4bit(b, state).to(a.dtype).t(), bias)

    @staticmethod
    def backward(ctx, gradient):
        _, b = ctx.tensors
        weight = quantization.dequantize_4bit(b, ctx.state).to(gradient.dtype)
        return torch.matmul(gradient, weight.t()), None, None, None


class Tokens:
    eos_id = 2

    def __init__(self, folder):
        pass

    def encode(self, text, device=None):
        return torch.ones(60, dtype=torch.int32, device=device)

    def decode(self, tokens):
        return ""


def load_checkpoint(fabric, model, path, strict=True):
    with torch.device("meta"):
        shapes = lora.GPT(model.config).state_dict()
    weights = {name: torch.empty(1, dtype=torch.bfloat16).expand(like.shape)
               for name, like in shapes.items() if "lora_" not in name}
    model.load_state_dict(weights, strict=strict)


def sample(tokens):
    return {"input_ids": torch.ones(tokens, dtype=torch.int32), "labels": torch.ones(tokens, dtype=torch.int32)}


def main():
    name, quantize, micro_batch, longest = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    bitsandbytes.matmul_4bit = lambda a, b, quant_state, bias=None: MatMul4Bit.apply(a, b.view(1, -1), bias, quant_state)
    lora.micro_batch_size, lora.gradient_accumulation_iters = micro_batch, MINIBATCH // micro_batch
    lora.max_iters, lora.eval_iters = 2, 1
    lora.Tokenizer, lora.load_checkpoint = Tokens, load_checkpoint
    lora.check_valid_checkpoint_dir = lora.save_lora_checkpoint = lora.generate = lambda *a, **k: torch.ones(1)
    lora.measure_flops = lora.estimate_flops = lambda *a: 1
    torch.load = lambda path: [sample(SHORT)] * 50 + ([sample(longest)] if "train" in str(path) else [])
    quantized = quantize != "none"
    fabric = lightning.Fabric(devices=1, accelerator="cuda", precision=None if quantized else "bf16-true",
                              plugins=BitsandbytesPrecision(quantize, torch.bfloat16) if quantized else None)
    fabric.launch(lora.main, Path("data"), Path(name), Path("out"))
    print(torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()
