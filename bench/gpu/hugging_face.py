"""Hugging Face's Llama with the config of a sample, random weights in bf16, and its training step."""

import time

import torch

from part import config_of


def model_of(model, device, layers=None, checkpointing=False):
    import transformers  # where the parts without it go on
    config = config_of(model)
    for name in ("architectures", "torch_dtype", "transformers_version", "model_type", "use_cache"):
        config.pop(name, None)
    if layers is not None:
        config["num_hidden_layers"] = layers
    settled = transformers.LlamaConfig(**config, attn_implementation="sdpa", use_cache=False)
    with torch.device(device):
        made = transformers.LlamaForCausalLM(settled).to(torch.bfloat16)
    made.train()
    if checkpointing:
        made.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return made


class Step:
    def __init__(self, model, device, batch, seq, compiled=False):
        self.device = device
        self.model = model
        self.forward = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.ids = torch.randint(0, model.config.vocab_size, (batch, seq), device=device)

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(input_ids=self.ids, labels=self.ids).loss.backward()
        self.optimizer.step()

    def seconds(self):
        synchronize(self.device)
        start = time.perf_counter()
        self.run()
        synchronize(self.device)
        return time.perf_counter() - start


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def peaks(device, work):
    """(allocated, reserved) of work() beyond what is not torch's; None on a CPU, which counts nothing."""
    if device != "cuda":
        work()
        return None, None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def release(device):
    import gc
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
