#include "ac_advisor/ir/module_path.hpp"

namespace ac_advisor::ir {
namespace {

const char* leaf_name(Module leaf) {
  switch (leaf) {
    case Module::root:
      return "model";
    case Module::embed:
      return "embed_tokens";
    case Module::vision_tower:
      return "vision_tower";
    case Module::rotary:
      return "rotary_emb";
    case Module::block:
      return "";
    case Module::norm1:
      return "norm1";
    case Module::attention:
      return "attention";
    case Module::q_proj:
      return "attention.q_proj";
    case Module::k_proj:
      return "attention.k_proj";
    case Module::v_proj:
      return "attention.v_proj";
    case Module::qkv_proj:
      return "attention.qkv_proj";
    case Module::q_a_proj:
      return "attention.q_a_proj";
    case Module::q_b_proj:
      return "attention.q_b_proj";
    case Module::kv_a_proj:
      return "attention.kv_a_proj_with_mqa";
    case Module::kv_b_proj:
      return "attention.kv_b_proj";
    case Module::q_a_norm:
      return "attention.q_a_layernorm";
    case Module::kv_a_norm:
      return "attention.kv_a_layernorm";
    case Module::q_norm:
      return "attention.q_norm";
    case Module::k_norm:
      return "attention.k_norm";
    case Module::rope:
      return "attention.rope";
    case Module::attention_core:
      return "attention.core";
    case Module::ba_proj:
      return "attention.in_proj_ba";
    case Module::z_proj:
      return "attention.in_proj_z";
    case Module::b_proj:
      return "attention.in_proj_b";
    case Module::a_proj:
      return "attention.in_proj_a";
    case Module::conv1d:
      return "attention.conv1d";
    case Module::delta_rule:
      return "attention.delta_rule";
    case Module::gated_norm:
      return "attention.norm";
    case Module::o_proj:
      return "attention.o_proj";
    case Module::post_attention_norm:
      return "post_attention_norm";
    case Module::norm2:
      return "norm2";
    case Module::mlp:
      return "mlp";
    case Module::gate_proj:
      return "mlp.gate_proj";
    case Module::up_proj:
      return "mlp.up_proj";
    case Module::gate_up_proj:
      return "mlp.gate_up_proj";
    case Module::activation:
      return "mlp.activation";
    case Module::down_proj:
      return "mlp.down_proj";
    case Module::router:
      return "mlp.router";
    case Module::experts:
      return "mlp.experts";
    case Module::post_mlp_norm:
      return "post_mlp_norm";
    case Module::final_norm:
      return "norm";
    case Module::lm_head:
      return "lm_head";
    case Module::loss:
      return "loss";
    case Module::optimizer:
      return "optimizer";
    case Module::fsdp:
      return "fsdp";
  }
  return "?";
}

}  // namespace

std::string to_string(ModulePath path) {
  if (path.owner != Owner::policy)
    return (path.owner == Owner::reference ? "reference." : "no_grad.") +
           to_string(ModulePath{path.block, path.leaf});
  const std::string leaf = leaf_name(path.leaf);
  if (path.block < 0) return leaf;
  const std::string block = "blocks." + std::to_string(path.block);
  return leaf.empty() ? block : block + "." + leaf;
}

Module submodule_of(Module leaf) {
  switch (leaf) {
    case Module::attention:
    case Module::q_proj:
    case Module::k_proj:
    case Module::v_proj:
    case Module::qkv_proj:
    case Module::q_a_proj:
    case Module::q_b_proj:
    case Module::kv_a_proj:
    case Module::kv_b_proj:
    case Module::q_a_norm:
    case Module::kv_a_norm:
    case Module::q_norm:
    case Module::k_norm:
    case Module::rope:
    case Module::attention_core:
    case Module::ba_proj:
    case Module::z_proj:
    case Module::b_proj:
    case Module::a_proj:
    case Module::conv1d:
    case Module::delta_rule:
    case Module::gated_norm:
    case Module::o_proj:
      return Module::attention;
    case Module::mlp:
    case Module::gate_proj:
    case Module::up_proj:
    case Module::gate_up_proj:
    case Module::activation:
    case Module::down_proj:
    case Module::router:
    case Module::experts:
      return Module::mlp;
    default:
      return leaf;
  }
}

}  // namespace ac_advisor::ir
