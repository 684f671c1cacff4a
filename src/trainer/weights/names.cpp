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

/// The linear layer of the block that `parameter` is a weight, a scale or an adapter of; nullptr:
/// none of them.
const passes::LinearValues* layer_of(const passes::BlockValues& block, ir::ValueId parameter) {
  for (const passes::LinearValues* layer : block.linear_layers())
    for (const ir::ValueId value : {layer->weight, layer->code_book, layer->scales, layer->nested,
                                    layer->offset, layer->lora_a, layer->lora_b, layer->magnitude})
      if (value == parameter) return layer;
  return nullptr;
}

/// Names the parameters one after the other.
class Names {
 public:
  Names(const model::ModelSpec& spec, const passes::StepProgram& step) : spec_(spec), step_(step) {}

  NamedParameter next(const passes::Parameter& parameter) {
    const ir::ModulePath previous = std::exchange(last_, parameter.module);
    const auto sizes = step_.program.value(parameter.value).shape.sizes();
    NamedParameter named;
    named.shape.assign(sizes.begin(), sizes.end());
    const ir::ModulePath module = parameter.module;
    if (module.leaf == ir::Module::embed)
      named.name = "model.embed_tokens.weight";
    else if (module.leaf == ir::Module::final_norm)
      named.name = "model.norm.weight";
    else if (module.leaf == ir::Module::lm_head)
      named.name = spec_.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
    else if (module.leaf == ir::Module::experts)  // fused over experts since transformers 5
      named.name = fmt::format("model.layers.{}.mlp.experts.{}", module.block,
                               previous == module ? "down_proj" : "gate_up_proj");
    else
      name_in_block(named, parameter);
    return named;
  }

 private:
  void name_in_block(NamedParameter& named, const passes::Parameter& parameter) {
    const ir::ModulePath module = parameter.module;
    const std::string path = fmt::format("model.layers.{}.{}", module.block,
                                         in_block(module.leaf, spec_.sandwich_norms));
    const passes::LinearValues* layer =
        layer_of(step_.model.blocks[static_cast<std::size_t>(module.block)], parameter.value);
    const ir::ValueId v = parameter.value;
    if (layer != nullptr && (v == layer->lora_a || v == layer->lora_b)) {
      const bool a = v == layer->lora_a;
      named.holds = a ? Holds::adapter_a : Holds::adapter_b;
      named.name = fmt::format("base_model.model.{}.lora_{}.weight", path, a ? "A" : "B");
    } else if (layer != nullptr && v == layer->magnitude) {
      named.holds = Holds::magnitude;
      named.name = fmt::format("base_model.model.{}.lora_magnitude_vector", path);
    } else if (layer != nullptr && v == layer->code_book) {
      named.holds = Holds::code_book;
      named.name = path + ".weight.quant_map";
    } else if (layer != nullptr && v == layer->scales) {
      named.holds = Holds::scales;
      named.name = path + ".weight.absmax";
    } else if (layer != nullptr && v == layer->nested) {
      named.holds = Holds::nested;
      named.name = path + ".weight.nested_absmax";
    } else if (layer != nullptr && v == layer->offset) {
      named.holds = Holds::offset;
      named.name = path + ".weight.nested_offset";
    } else if (layer != nullptr && layer->scales != ir::no_id) {
      named.holds = Holds::codes;
      named.name = path + ".weight";
      named.shape = {layer->out, layer->in};
      named.state = {layer->code_book, layer->scales, layer->nested, layer->offset};
    } else {
      named.name = path + (named.shape.size() == 1 && !is_norm(module.leaf) ? ".bias" : ".weight");
    }
  }

  const model::ModelSpec& spec_;
  const passes::StepProgram& step_;
  ir::ModulePath last_;
};

}  // namespace

std::vector<NamedParameter> named_parameters(const model::ModelSpec& spec,
                                             const passes::StepProgram& step,
                                             const Layout& layout) {
  std::vector<NamedParameter> named;
  Names names(spec, step);
  for (const passes::Parameter& parameter : step.parameters) {
    named.push_back(names.next(parameter));
    const ir::Module leaf = parameter.module.leaf;
    if (parameter.expert) {
      named.back().split = 0;
      named.back().shape[0] *= layout.ep;
      continue;
    }
    if (layout.tp == 1 || is_norm(leaf)) continue;
    named.back().split = ir::split_by_inputs(leaf) ? 1 : 0;
    named.back().shape[static_cast<std::size_t>(named.back().split)] *= layout.tp;
  }
  return named;
}

}  // namespace ac_advisor::trainer
