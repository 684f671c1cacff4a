"""One training step with adapters, as adapter_peaks.py measures it.

The model is transformers' with SDPA (flash attention: set TORCH_CUDNN_SDPA_DEPRIORITIZED=1), no
attention mask and no cache; PEFT wraps it; parameters that are trained go to AdamW(fused=True). The
caller keeps the model's output through backward and drops it before the next step.
"""

import contextlib

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from transformers import AutoConfig, AutoModelForCausalLM

from training_step import stack_of

DEFAULTS = {
    "batch": 1, "seq": 512, "lora": 0, "lora_targets": "", "lora_dtype": "fp32", "lora_dropout": 0.0, "dora": False,
    "quantize": "none", "input_require_grads": "auto", "ac": "none", "ac_reentrant": False,
    "autocast": "none", "kbit_prepare": False, "hold_output": True, "held_until": "backward", "optimizer": "adamw", "param_dtype": "bf16", "grad_accum": 1, "loss": "ce", "attn": "flash",
}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def build(config, options):
    kind = config["model_type"]
    settings = AutoConfig.for_model(kind, **{k: v for k, v in config.items() if k != "model_type"})
    attention = "eager" if options["attn"] == "eager" else "sdpa"
    quantized = options["quantize"] != "none"
    with torch.device("meta" if quantized else "cuda"):
        net = AutoModelForCausalLM.from_config(
            settings, dtype=DTYPES[options["param_dtype"]], attn_implementation=attention)
    if quantized:
        quantize(net, options["quantize"])
        materialize(net)
    torch.cuda.empty_cache()  # from_pretrained makes no LM head of its own beside what it is tied to
    return net.train()


def quantize(net, how, storage=torch.uint8):
    """What from_pretrained(quantization_config=...) does, a tensor at a time, to each nn.Linear but
    the LM head."""
    from bitsandbytes.nn import Int8Params, Linear4bit, Linear8bitLt, Params4bit

    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if not isinstance(child, torch.nn.Linear) or name == "lm_head":
                continue
            shape = (child.in_features, child.out_features, child.bias is not None)
            # bitsandbytes quantizes in 8 bits what comes from the host, and else in the first forward
            weight = torch.empty(child.weight.shape, dtype=child.weight.dtype, device="cpu" if how == "int8" else "cuda")
            if how == "int8":
                new = Linear8bitLt(*shape, has_fp16_weights=False, threshold=6.0, device="meta")
                new.weight = Int8Params(weight, requires_grad=False, has_fp16_weights=False)
            else:
                double = how == "nf4-double"
                new = Linear4bit(*shape, compute_dtype=torch.bfloat16, quant_type="nf4",
                                 compress_statistics=double, quant_storage=storage, device="meta")
                new.weight = Params4bit(weight, requires_grad=False, quant_type="nf4", compress_statistics=double,
                                        quant_storage=storage, module=new)
            del weight
            new.weight = new.weight.cuda()
            new.bias = child.bias
            setattr(module, name, new)
    net.is_loaded_in_8bit = how == "int8"
    net.is_loaded_in_4bit = how != "int8"


def materialize(net):
    """On the device, what is still without storage: embedding, norms, head, biases, buffers."""
    for module in net.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_meta:
                module._parameters[name] = torch.nn.Parameter(torch.empty_like(parameter, device="cuda"))
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = torch.zeros_like(buffer, device="cuda")
    net.tie_weights()


def checkpoint(net, options):
    ac = options["ac"]
    if ac == "none":
        return
    stack, name = stack_of(net)
    layers = getattr(stack, name)
    if options["ac_reentrant"]:  # transformers' own switch; adapt() has set it beside kbit_prepare
        if not options["kbit_prepare"]:
            net.gradient_checkpointing_enable({"use_reentrant": True})
        return
    every = int(ac.split(":")[1]) if ac.startswith("every") else 1
    for i in range(0, len(layers), every):
        layers[i] = checkpoint_wrapper(layers[i], checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=False)


def adapt(net, options):
    """What a user calls between loading a model and training it."""
    if options["kbit_prepare"]:
        prepare_model_for_kbit_training(net, use_gradient_checkpointing=options["ac_reentrant"])
    when = options["input_require_grads"]
    if when == "on" or when == "auto" and options["ac"] != "none":
        net.enable_input_require_grads()
    targets = options["lora_targets"]
    lora = LoraConfig(
        r=options["lora"], lora_alpha=2 * options["lora"], lora_dropout=options["lora_dropout"],
        target_modules=None if not targets else targets if targets == "all-linear" else targets.split(","),
        use_dora=options["dora"], task_type="CAUSAL_LM",
    )
    adapted = get_peft_model(net, lora, autocast_adapter_dtype=options["lora_dtype"] == "fp32")
    if options["lora_dtype"] == "bf16":  # over an fp32 or quantized base by hand, as TRL's SFTTrainer does it
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()
    return adapted


class Step:
    def __init__(self, config, options):
        self.options = options = DEFAULTS | options
        self.net = adapt(build(config, options), options)
        checkpoint(self.net.base_model.model, options)
        trained = [p for p in self.net.parameters() if p.requires_grad]
        fused = options["optimizer"] == "adamw"
        if options["optimizer"] == "sgd":
            self.optimizer = torch.optim.SGD(trained, lr=1e-4, fused=True)
        else:
            self.optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=fused, foreach=not fused)
        shape = (options["batch"], options["seq"])
        self.ids = torch.zeros(shape, dtype=torch.int64, device="cuda")
        self.labels = torch.zeros(shape, dtype=torch.int64, device="cuda")
        self.output = None
        self.autocast = contextlib.nullcontext()
        if options["autocast"] != "none":
            self.autocast = torch.autocast("cuda", DTYPES[options["autocast"]])

    def run(self, measured=False):
        phases = {"forward": 0, "backward": 0, "optimizer": 0}

        def end(phase):
            if not measured:
                return
            phases[phase] = max(phases[phase], torch.cuda.max_memory_allocated())
            self.reserved = max(self.reserved, torch.cuda.max_memory_reserved())
            torch.cuda.reset_peak_memory_stats()

        self.optimizer.zero_grad(set_to_none=True)
        if self.options["held_until"] == "backward":
            self.output = None
        if measured:
            self.reserved = torch.cuda.max_memory_reserved()
            torch.cuda.reset_peak_memory_stats()
        for _ in range(self.options["grad_accum"]):
            if self.options["held_until"] == "backward":
                self.output = None
            with self.autocast:
                self.output = self.net(input_ids=self.ids, labels=self.labels, use_cache=False)
            loss = self.output.loss
            if not self.options["hold_output"]:
                self.output = None
            end("forward")
            loss.backward()
            end("backward")
            del loss
        self.optimizer.step()
        end("optimizer")
        return phases
