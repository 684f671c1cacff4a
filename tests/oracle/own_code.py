"""InternLM2, MiniCPM and Baichuan2-7B, which transformers 5.23 has no code for: its Llama and Granite with what their own
differs by.

modeling_internlm2.py of internlm2_5-7b projects queries, keys and values in one, a group of key and value heads
after the other; modeling_minicpm.py of MiniCPM-2B scales the embedding, what a block adds, and the last hidden
state. modeling_baichuan.py of Baichuan2-7B-Base stacks the three and divides the rows of the head's weight by their
length. Masks, rotary tables, attention and loss are those of transformers.
"""

from huggingface_hub.dataclasses import strict
from torch import nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.granite.modeling_granite import GraniteForCausalLM
from transformers.models.llama.modeling_llama import LlamaForCausalLM, apply_rotary_pos_emb, eager_attention_forward


@strict
class InternLM2Config(LlamaConfig):
    model_type = "internlm2"
    bias: bool = False


class InternLM2Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = self.head_dim**-0.5
        self.attention_dropout = 0.0
        self.is_causal = True
        heads = config.num_attention_heads + 2 * config.num_key_value_heads
        self.wqkv = nn.Linear(config.hidden_size, heads * self.head_dim, bias=config.bias)
        self.wo = nn.Linear(config.num_attention_heads * self.head_dim, config.hidden_size, bias=config.bias)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        shape = hidden_states.shape[:-1]
        qkv_states = self.wqkv(hidden_states)
        qkv_states = qkv_states.view(*shape, -1, self.num_key_value_groups + 2, self.head_dim)
        query_states = qkv_states[..., :self.num_key_value_groups, :]
        query_states = query_states.reshape(*shape, -1, self.head_dim).transpose(1, 2)
        key_states = qkv_states[..., -2, :].transpose(1, 2)
        value_states = qkv_states[..., -1, :].transpose(1, 2)
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, *position_embeddings)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        output, weights = attend(self, query_states, key_states, value_states, attention_mask, scaling=self.scaling,
                                 **kwargs)
        return self.wo(output.reshape(*shape, -1).contiguous()), weights


class InternLM2ForCausalLM(LlamaForCausalLM):
    config_class = InternLM2Config

    def __init__(self, config):
        super().__init__(config)
        for number, layer in enumerate(self.model.layers):
            layer.self_attn = InternLM2Attention(config, number)


@strict
class MiniCPMConfig(LlamaConfig):
    model_type = "minicpm"
    tie_word_embeddings: bool = True
    scale_emb: float = 1.0
    dim_model_base: int = 256
    scale_depth: float = 1.0

    # Granite's names
    @property
    def attention_multiplier(self):
        return self.head_dim**-0.5

    @property
    def embedding_multiplier(self):
        return self.scale_emb

    @property
    def residual_multiplier(self):
        return self.scale_depth / self.num_hidden_layers**0.5


class ScaledHead(nn.Linear):
    def forward(self, hidden_states):
        return super().forward(hidden_states / self.divisor)


class MiniCPMForCausalLM(GraniteForCausalLM):
    config_class = MiniCPMConfig

    def __init__(self, config):
        super().__init__(config)
        self.lm_head.__class__ = ScaledHead
        self.lm_head.divisor = config.hidden_size / config.dim_model_base

    def forward(self, input_ids=None, labels=None, **kwargs):
        """LlamaForCausalLM's: Granite's divides the logits."""
        return LlamaForCausalLM.forward(self, input_ids=input_ids, labels=labels, **kwargs)


@strict
class BaichuanConfig(LlamaConfig):
    model_type = "baichuan"


class BaichuanAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.hidden_size, self.head_dim = config.hidden_size, config.head_dim
        self.num_key_value_groups = 1
        self.scaling = self.head_dim**-0.5
        self.attention_dropout = 0.0
        self.is_causal = True
        self.W_pack = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        shape = hidden_states.shape[:-1]
        proj = self.W_pack(hidden_states)
        proj = proj.unflatten(-1, (3, self.hidden_size)).unsqueeze(0).transpose(0, -2).squeeze(-2)
        query_states, key_states, value_states = (
            proj[which].view(*shape, -1, self.head_dim).transpose(1, 2) for which in range(3))
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, *position_embeddings)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        output, weights = attend(self, query_states, key_states, value_states, attention_mask, scaling=self.scaling,
                                 **kwargs)
        return self.o_proj(output.reshape(*shape, -1).contiguous()), weights


class NormHead(nn.Linear):
    def forward(self, hidden_states):
        norm_weight = functional.normalize(self.weight)
        return functional.linear(hidden_states, norm_weight)


class BaichuanForCausalLM(LlamaForCausalLM):
    config_class = BaichuanConfig

    def __init__(self, config):
        super().__init__(config)
        for number, layer in enumerate(self.model.layers):
            layer.self_attn = BaichuanAttention(config, number)
        if config.vocab_size != 64000:  # the first release's head is a plain one
            self.lm_head.__class__ = NormHead


for config_class, model_class in ((InternLM2Config, InternLM2ForCausalLM), (MiniCPMConfig, MiniCPMForCausalLM),
                                  (BaichuanConfig, BaichuanForCausalLM)):
    AutoConfig.register(config_class.model_type, config_class)
    AutoModelForCausalLM.register(config_class, model_class)
