"""As torchtune_peaks.py, with torchtune 0.6.1's own layers (TransformerDecoder), which its preset plans.

    ac-advisor dryrun [--world N] --output /dev/null -- python torchtune_layers_peaks.py torchtune_layers_peaks.json

Its modules are imported one by one: the package itself asks for an older torchao.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
import types

from torch import nn

import emulated_peaks
from emulated_cases import config_of
from torchtune_peaks import of_own_layers, shape, steps


def bare(name, path, **names):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = module.__spec__.submodule_search_locations = [path]
    module.__dict__.update(names)
    sys.modules[name] = module


def torchtune_modules():
    root = importlib.util.find_spec("torchtune").submodule_search_locations[0]
    bare("torchao.dtypes.nf4tensor", "", NF4Tensor=type("NF4Tensor", (), {}), linear_nf4=None, to_nf4=None)
    for name in ("torchtune", "torchtune.utils", "torchtune.modules", "torchtune.models", "torchtune.models.llama3_1",
                 "torchtune.models.qwen2"):
        bare(name, root + name.removeprefix("torchtune").replace(".", "/"))
    sys.modules["torchtune.utils"].deprecated = lambda *a, **k: (lambda f: f)
    for name, classes in (("kv_cache", ("KVCache",)), ("attention", ("MultiHeadAttention",)),
                          ("feed_forward", ("FeedForward",)), ("rms_norm", ("RMSNorm",)),
                          ("transformer", ("TransformerDecoder", "TransformerSelfAttentionLayer")),
                          ("tied_linear", ("TiedLinear",))):
        made = importlib.import_module(f"torchtune.modules.{name}")
        for each in classes:
            setattr(sys.modules["torchtune.modules"], each, getattr(made, each))
    return sys.modules["torchtune.modules"]


M = torchtune_modules()
Llama3 = importlib.import_module("torchtune.models.llama3_1._position_embeddings").Llama3ScaledRoPE
Qwen2 = importlib.import_module("torchtune.models.qwen2._positional_embeddings").Qwen2RotaryPositionalEmbeddings


def linear(into, out, bias=False):
    return nn.Linear(into, out, bias=bias)


def decoder_of(entry):
    """models/llama3_1/_component_builders.py, llama3_1, of tied weights llama3_2's, and qwen2's."""
    c = config_of(entry["model"])
    width, heads, kv = (c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"])
    size, positions, biased = c.get("head_dim") or width // heads, c["max_position_embeddings"], c["model_type"] == "qwen2"
    rope = (Qwen2(dim=size, max_seq_len=positions) if biased else
            Llama3(dim=size, max_seq_len=positions, base=500000, scale_factor=8))

    def layer():
        attention = M.MultiHeadAttention(
            embed_dim=width, num_heads=heads, num_kv_heads=kv, head_dim=size,
            q_proj=linear(width, heads * size, biased), k_proj=linear(width, kv * size, biased),
            v_proj=linear(width, kv * size, biased), output_proj=linear(heads * size, width),
            pos_embeddings=rope, max_seq_len=positions)
        inner = c["intermediate_size"]
        mlp = M.FeedForward(gate_proj=linear(width, inner), down_proj=linear(inner, width),
                            up_proj=linear(width, inner))
        return M.TransformerSelfAttentionLayer(attn=attention, mlp=mlp, sa_norm=M.RMSNorm(dim=width, eps=1e-5),
                                               mlp_norm=M.RMSNorm(dim=width, eps=1e-5))

    embedding = nn.Embedding(c["vocab_size"], width)
    tied = c["tie_word_embeddings"]
    output = M.TiedLinear(embedding) if tied else linear(width, c["vocab_size"])
    return M.TransformerDecoder(
        tok_embeddings=embedding, layers=nn.ModuleList(layer() for _ in range(c["num_hidden_layers"])),
        max_seq_len=positions, num_heads=heads, head_dim=size, norm=M.RMSNorm(width, eps=1e-5), output=output)


def build(entry, on_loss):
    return of_own_layers(decoder_of, entry, on_loss)


def own(model, **more):
    entry = shape(model, **more)
    del entry["transformer_impl"]
    return entry


def cases():
    for model in ("small_llama", "llama1b_4layers", "mistral7b_4layers", "qwen2_05b_4layers"):
        for ac in ("full", "none"):
            yield own(model, ac=ac)
            yield own(model, ac=ac, world=8, shard="fsdp2")
        yield own(model, batch=3, seq=1000, world=2, shard="fsdp2", grad_accum=2)
        yield own(model, batch=1, seq=2048, ac="none", world=8, shard="fsdp2", optimizer="adamw-foreach")


def measure(entry):
    return emulated_peaks.measure(entry, build=build, steps=steps)


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(cases()), measure, __doc__))
