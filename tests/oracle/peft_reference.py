"""Tiny models with PEFT's adapters over a frozen base, whole and in 4 bits by bitsandbytes: their loss and the
adapters' gradients, on a CPU. Writes adapters/<name>/{adapter_config.json,adapter_model.safetensors,
expected.safetensors} beside this script; the base is transformers_reference.py's, that of 4 bits models/wide's, which
is written, too. With --check it compares instead of writing.

    python peft_reference.py [--check] [name ...]

Needs torch==2.11.0, transformers==5.23.0, peft==0.21.0, bitsandbytes==0.50.0 and safetensors.
"""

import json
import pathlib
import sys

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, prepare_model_for_kbit_training
from safetensors.torch import load_file, save_file

from transformers_reference import BATCH, FAMILIES, SEQ, build

HERE = pathlib.Path(__file__).resolve().parent
# bitsandbytes' CPU kernel takes a block of 64 weights to lie in one row: rows of 32 come out wrong.
FAMILIES["wide"] = ("Llama", dict(tie_word_embeddings=True, vocab_size=96, hidden_size=64, intermediate_size=64))
FAMILIES["wide_bf16"] = FAMILIES["wide"]
FAMILIES["wide_qwen2"] = ("Qwen2", FAMILIES["wide"][1])
CASES = {
    "llama": ("llama", 4, None, None, False),
    "qwen3": ("qwen3", 8, "all-linear", None, False),
    "phi3": ("phi3", 4, ["qkv_proj", "down_proj"], None, False),
    "llama_dora": ("llama", 4, None, None, True),
    "qwen3_dora": ("qwen3", 8, "all-linear", None, True),
    "wide_nf4_qv": ("wide", 4, None, "nf4", False),
    "wide_nf4": ("wide", 8, "all-linear", "nf4", False),
    "wide_nf4_dora": ("wide", 4, "all-linear", "nf4", True),
    "wide_nf4_double": ("wide", 8, "all-linear", "nf4-double", False),
    "wide_int8": ("wide", 8, "all-linear", "int8", False),
    "wide_nf4_biased": ("wide_qwen2", 8, "all-linear", "nf4", False),
    "wide_int8_biased": ("wide_qwen2", 8, "all-linear", "int8", False),
    "wide_nf4_prepared": ("wide_bf16", 8, "all-linear", "nf4", False),
    "wide_nf4_dora_prepared": ("wide_bf16", 4, "all-linear", "nf4", True),
}


class RowsIn8Bits(torch.nn.Linear):
    """A linear layer as bitsandbytes runs it on a GPU, without outliers; on a CPU its own Linear8bitLt takes the
    product of the dequantized weight instead (MatMul8bitFp)."""

    def __init__(self, weight, bias):
        super().__init__(weight.shape[1], weight.shape[0], bias=False)
        self.bias = bias
        codes, scales, _ = bitsandbytes.functional.int8_vectorwise_quant(weight.half())
        self.state = bitsandbytes.MatmulLtState()
        self.state.CB, self.state.SCB, self.state.has_fp16_weights, self.state.threshold = codes, scales, False, 0.0
        self.weight = torch.nn.Parameter(codes, requires_grad=False)

    def forward(self, x):
        # The product of a GPU is in fp16 before it is in the input's dtype, and is divided by 127 squared: the CPU's
        # has 6.200124e-05 for 6.2000124e-05, and what that moves by an fp16 step moves codes of the next layer.
        # A bias is added to the product in fp16.
        class Rounded(torch.autograd.Function):
            @staticmethod
            def forward(ctx, y):
                product = (y * (1 / (127 * 127) / 6.200124e-05)).half()
                return (product if self.bias is None else product.add_(self.bias)).to(y.dtype)

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        return Rounded.apply(bitsandbytes.autograd._functions.MatMul8bitLt.apply(x, self.weight, None, None,
                                                                                 self.state))


def quantize(model, how):
    """Each linear layer of the blocks becomes bitsandbytes' of its fp32 weight."""
    kept = {}
    for path, module in list(model.model.layers.named_modules()):
        for name, linear in list(module.named_children()):
            if type(linear) is not torch.nn.Linear:
                continue
            full = "model.layers." + (path + "." if path else "") + name
            if how == "int8":
                made = RowsIn8Bits(linear.weight.detach(), linear.bias)
                kept[full + ".codes"] = made.state.CB.view(torch.uint8).clone()
                kept[full + ".absmax"] = made.state.SCB.clone()
                setattr(module, name, made)
                continue
            double = how == "nf4-double"
            made = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=False,
                                              compute_dtype=torch.bfloat16, compress_statistics=double,
                                              quant_type="nf4")
            packed, state = bitsandbytes.functional.quantize_4bit(linear.weight.detach(), quant_type="nf4",
                                                                  compress_statistics=double)
            made.weight = bitsandbytes.nn.Params4bit(packed, requires_grad=False, quant_state=state, bnb_quantized=True,
                                                     quant_type="nf4", compress_statistics=double)
            made.quant_state, made.bias = state, linear.bias
            kept[full + ".codes"] = packed.flatten().clone()
            kept[full + ".absmax"] = state.absmax.clone()
            if double:
                kept[full + ".nested"] = state.state2.absmax.clone()
                kept[full + ".offset"] = state.offset.clone()
                kept["map"] = state.state2.code.clone()
            setattr(module, name, made)
    model.is_loaded_in_4bit = how != "int8"
    return kept


def write_base(config, model, folder):
    if folder.exists():
        return
    folder.mkdir(parents=True)
    keep = {k: v for k, v in config.to_dict().items() if v is not None and not k.startswith("_")}
    (folder / "config.json").write_text(json.dumps(keep, indent=2, sort_keys=True) + "\n")
    save_file({n: p.detach().clone().contiguous() for n, p in model.named_parameters()}, folder / "model.safetensors")


def reference(name):
    family, rank, targets, quantized, dora = CASES[name]
    config, model = build(family)
    if family.endswith("_bf16"):
        model.bfloat16()
    if quantized:
        write_base(config, model, HERE / "models" / family)
    codes = quantize(model, quantized) if quantized else {}
    if name.endswith("_prepared"):
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, use_dora=dora, task_type="CAUSAL_LM")
    net = get_peft_model(model, lora)
    net.train()
    generator = torch.Generator().manual_seed(5)
    trained = {n: p for n, p in net.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for key, parameter in trained.items():  # B, too: with B = 0 no gradient reaches A
            drawn = torch.randn(parameter.shape, generator=generator)
            # Magnitudes stay near the lengths that they begin as.
            parameter.copy_(parameter * (1 + 0.1 * drawn) if "magnitude" in key else 0.1 * drawn)
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQ), generator=torch.Generator().manual_seed(11))
    loss = net(input_ids=ids, labels=ids).loss
    loss.backward()
    adapters = {n: p.detach().clone().contiguous() for n, p in get_peft_model_state_dict(net).items()}
    expected = {"ids": ids, "loss": loss.detach()} | codes
    expected |= {"grad." + n.replace(".default", "").replace("_vector.weight", "_vector"): p.grad.clone().contiguous() for n, p in trained.items()}
    return lora, adapters, expected


def main():
    words = sys.argv[1:]
    check = "--check" in words
    torch.set_num_threads(1)
    worst = 0.0
    for name in [w for w in words if w != "--check"] or CASES:
        lora, adapters, expected = reference(name)
        folder = HERE / "adapters" / name
        if check:
            written = load_file(folder / "expected.safetensors")
            for key, value in expected.items():
                difference = (written[key].double() - value.double()).norm() / max(value.double().norm(), 1e-30)
                worst = max(worst, float(difference))
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(lora.target_modules, set):
            lora.target_modules = sorted(lora.target_modules)
        lora.save_pretrained(folder)
        save_file(adapters, folder / "adapter_model.safetensors")
        save_file(expected, folder / "expected.safetensors")
        print(name, float(expected["loss"]), len(adapters), "adapters")
    if check:
        print(f"largest relative difference {worst:.3g}")
        sys.exit(worst > 1e-5)


if __name__ == "__main__":
    main()
