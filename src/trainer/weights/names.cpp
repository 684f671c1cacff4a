#include "trainer/weights/names.hpp"

#include <fmt/format.h>

#include <utility>

namespace ac_advisor::trainer {
namespace {

/// transformers v5.23, modeling_<family>.py: the module that holds a block's parameter.
const char* in_block(ir::Module leaf, bool sandwich) {
  switch (leaf) {
    case ir::Module::norm1:
      return "input_layernorm";
    case ir::Module::post_attention_norm:
      return "post_attention_layernorm";
    case ir::Module::norm2:
      return sandwich ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    case ir::Module::post_mlp_norm:
      return "post_feedforward_layernorm";
    case ir::Module::q_proj:
      return "self_attn.q_proj";
    case ir::Module::k_proj:
      return "self_attn.k_proj";
    case ir::Module::v_proj:
      return "self_attn.v_proj";
    case ir::Module::o_proj:
      return "self_attn.o_proj";
    case ir::Module::qkv_proj:
      return "self_attn.qkv_proj";
    case ir::Module::q_norm:
      return "self_attn.q_norm";
    case ir::Module::k_norm:
      return "self_attn.k_norm";
    case ir::Module::gate_proj:
      return "mlp.gate_proj";
    case ir::Module::up_proj:
      return "mlp.up_proj";
    case ir::Module::gate_up_proj:
      return "mlp.gate_up_proj";
    case ir::Module::down_proj:
      return "mlp.down_proj";
    case ir::Module::router:
      return "mlp.gate";
    default:
      return "";
  }
}

bool is_norm(ir::Module leaf) {
  switch (leaf) {
    case ir::Module::norm1:
    case ir::Module::norm2:
    case ir::Module::post_attention_norm:
    case ir::Module::post_mlp_norm:
    case ir::Module::q_norm:
    case ir::Module::k_norm:
    case ir::Module::final_norm:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<std::string> parameter_names(const model::ModelSpec& spec,
                                         const passes::StepProgram& step) {
  std::vector<std::string> names;
  ir::ModulePath last;
  for (const passes::Parameter& parameter : step.parameters) {
    const ir::ModulePath module = parameter.module;
    const ir::ModulePath previous = std::exchange(last, module);
    const ir::Shape& shape = step.program.value(parameter.value).shape;
    if (module.leaf == ir::Module::embed) {
      names.emplace_back("model.embed_tokens.weight");
    } else if (module.leaf == ir::Module::final_norm) {
      names.emplace_back("model.norm.weight");
    } else if (module.leaf == ir::Module::lm_head) {
      names.emplace_back("lm_head.weight");
    } else if (module.leaf == ir::Module::experts) {  // fused over experts since transformers 5
      const bool down = previous == module;
      names.push_back(fmt::format("model.layers.{}.mlp.experts.{}", module.block,
                                  down ? "down_proj" : "gate_up_proj"));
    } else {
      const bool bias = shape.rank() == 1 && !is_norm(module.leaf);
      names.push_back(fmt::format("model.layers.{}.{}.{}", module.block,
                                  in_block(module.leaf, spec.sandwich_norms),
                                  bias ? "bias" : "weight"));
    }
  }
  return names;
}

}  // namespace ac_advisor::trainer
