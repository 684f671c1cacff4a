#include "targets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layer_names.hpp"
#include "ac_advisor/model/tower_parts.hpp"

namespace ac_advisor::passes {
namespace {

using ir::Module;
using model::ends_in;

constexpr std::string_view all_linear = "all-linear";

std::string_view name_of(const model::LayerNames& names, Module leaf) {
  switch (leaf) {
    case Module::q_proj:
      return names.q;
    case Module::k_proj:
      return names.k;
    case Module::v_proj:
      return names.v;
    case Module::qkv_proj:
      return names.qkv;
    case Module::o_proj:
      return names.o;
    case Module::gate_proj:
      return names.gate;
    case Module::up_proj:
      return names.up;
    case Module::gate_up_proj:
      return names.gate_up;
    case Module::down_proj:
      return names.down;
    case Module::mlp:  // a shared expert's gate, of one output
      return "mlp.shared_expert_gate";
    default:
      return {};
  }
}

/// A delta net's, which stands in attention's place.
std::string_view name_in_delta(bool apart, Module leaf) {
  switch (leaf) {
    case Module::qkv_proj:
      return apart ? "linear_attn.in_proj_qkv" : "linear_attn.in_proj_qkvz";
    case Module::ba_proj:
      return "linear_attn.in_proj_ba";
    case Module::z_proj:
      return "linear_attn.in_proj_z";
    case Module::b_proj:
      return "linear_attn.in_proj_b";
    case Module::a_proj:
      return "linear_attn.in_proj_a";
    case Module::o_proj:
      return "linear_attn.out_proj";
    default:
      return {};
  }
}

std::string_view name_in_block(const model::ModelSpec& spec, ir::ModulePath layer) {
  if (layer.block >= 0 && spec.has_delta(layer.block)) {
    const bool apart = model::class_facts(spec.family).delta_apart;
    if (const auto name = name_in_delta(apart, layer.leaf); !name.empty()) return name;
  }
  return name_of(model::layer_names(spec.family), layer.leaf);
}

bool of_mlp(Module leaf) {
  return leaf == Module::gate_proj || leaf == Module::up_proj || leaf == Module::gate_up_proj ||
         leaf == Module::down_proj;
}

bool has_experts(const model::ModelSpec& spec, std::int16_t block) {
  const auto i = static_cast<std::size_t>(block);
  return spec.moe && i < spec.sparse_block.size() && spec.sparse_block[i];
}

/// transformers' path of a linear layer of a block: an MLP's, or a shared expert's.
std::string path_of(const model::ModelSpec& spec, ir::ModulePath layer) {
  const model::LayerNames& names = model::layer_names(spec.family);
  std::string_view name = name_in_block(spec, layer);
  if (!of_mlp(layer.leaf) || !has_experts(spec, layer.block))
    return fmt::format("{}.{}.{}", names.blocks, layer.block, name);
  name.remove_prefix(name.rfind('.') + 1);
  return fmt::format("{}.{}.{}.{}", names.blocks, layer.block, names.shared, name);
}

std::string_view targets_of(const model::ModelSpec& spec, const StepConfig& config) {
  if (!config.adapters.targets.empty()) return config.adapters.targets;
  return model::default_targets(config.adapters.method, spec.family);
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    names.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

bool names(const model::ModelSpec& spec, std::string_view target, ir::ModulePath layer) {
  return ends_in(path_of(spec, layer), target);
}

/// Whether PEFT's LoRA adapts experts' weights by the names that transformers 4 had for them. NeMo
/// AutoModel's (0.5.0, _peft/lora.py) adapts linear layers, which experts of transformers' are not.
bool converts(const model::ModelSpec& spec, const StepConfig& config) {
  return config.adapters.rank > 0 && spec.moe && config.runtime.framework != "automodel" &&
         !model::layer_names(spec.family).expert_down.empty();
}

constexpr std::string_view router = "gate";

/// Of a family whose experts are converted: such a target names linear layers no more.
bool names_experts(const model::ModelSpec& spec, std::string_view target) {
  const model::LayerNames& all = model::layer_names(spec.family);
  return ends_in(target, router) || ends_in(target, all.expert_gate) ||
         ends_in(target, all.expert_up) || ends_in(target, all.expert_down);
}

/// Of a mixture without linear layers in its MLPs all blocks have experts, and no shared one.
bool has_mlp_layers(const model::ModelSpec& spec) {
  return !spec.moe || spec.moe->shared_intermediate > 0 ||
         std::find(spec.sparse_block.begin(), spec.sparse_block.end(), false) !=
             spec.sparse_block.end();
}

}  // namespace

DType trained_dtype(const StepConfig& config) {
  const bool own = config.adapters.used() && config.adapters.method != AdapterMethod::ln_tuning;
  return own ? config.adapters.dtype : config.precision.param_dtype;
}

bool reads_head_of_shards(const StepConfig& config) {
  return config.layout.gathers() && config.layout.fsdp_unit == FsdpUnit::accelerate &&
         config.adapters.used() && config.memory.loss == LossKind::tiled;
}

bool own_adapters_of_automodel(const StepConfig& config) {
  return config.runtime.framework == "automodel" && config.adapters.rank > 0 &&
         !config.adapters.dora && config.memory.kernels != Kernels::compiled &&
         config.runtime.kind != Runtime::ac_trainer;
}

DType lora_dtype(const StepConfig& config) {
  // accelerate asks for mixed precision whatever the base was loaded in, and trains fp32.
  const bool mixed =
      config.layout.gathers() && (config.precision.param_dtype != config.precision.compute_dtype ||
                                  config.layout.fsdp_unit == FsdpUnit::accelerate);
  return mixed ? config.precision.compute_dtype : config.adapters.dtype;
}

std::vector<Module> linear_layers(const model::ModelSpec& spec, std::int16_t block) {
  std::vector<Module> layers;
  if (spec.has_delta(block) && model::class_facts(spec.family).delta_apart)
    layers = {Module::o_proj, Module::qkv_proj, Module::z_proj, Module::b_proj, Module::a_proj};
  else if (spec.has_delta(block))
    layers = {Module::qkv_proj, Module::ba_proj, Module::o_proj};
  else if (spec.fused_qkv)
    layers = {Module::o_proj, Module::qkv_proj};
  else
    layers = {Module::q_proj, Module::k_proj, Module::v_proj, Module::o_proj};
  if (!has_mlp_layers(spec)) return layers;
  if (spec.fused_gate_up)
    layers.insert(layers.end(), {Module::gate_up_proj, Module::down_proj});
  else if (spec.plain_mlp)
    layers.insert(layers.end(), {Module::up_proj, Module::down_proj});
  else
    layers.insert(layers.end(), {Module::gate_proj, Module::up_proj, Module::down_proj});
  if (spec.moe && spec.moe->shared_gate) layers.push_back(Module::mlp);
  return layers;
}

bool adapts_layers(const StepConfig& config) {
  const Adapters& a = config.adapters;
  return a.rank > 0 || (a.of_another_method() &&
                        model::row(a.method).place == model::AdapterPlace::linear_layers);
}

bool adapts(const model::ModelSpec& spec, const StepConfig& config, ir::ModulePath layer) {
  if (!adapts_layers(config) || layer.block < 0 || config.run.frozen.decoder) return false;
  const std::string_view targets = targets_of(spec, config);
  const bool converted = converts(spec, config);
  if (targets == all_linear) return !converted || !of_mlp(layer.leaf);
  const auto list = split(targets);
  return std::any_of(list.begin(), list.end(), [&](std::string_view target) {
    return names(spec, target, layer) && !(converted && names_experts(spec, target));
  });
}

bool adapts(const model::ModelSpec& spec, const StepConfig& config,
            const model::EncoderLinear& layer) {
  const FrozenParts& frozen = config.run.frozen;
  if (!adapts_layers(config) || (model::of_projector(layer) ? frozen.projector : frozen.tower))
    return false;
  const std::string_view targets = targets_of(spec, config);
  if (targets == all_linear) return true;
  const auto list = split(targets);
  return std::any_of(list.begin(), list.end(),
                     [&](std::string_view target) { return ends_in(layer.name, target); });
}

ExpertTargets adapted_experts(const model::ModelSpec& spec, const StepConfig& config) {
  if (!converts(spec, config)) return {};
  const std::string_view targets = targets_of(spec, config);
  if (targets == all_linear) return {true, true, true, true};
  const model::LayerNames& all = model::layer_names(spec.family);
  const auto list = split(targets);
  const auto named = [&](std::string_view expert) {
    return std::any_of(list.begin(), list.end(),
                       [&](std::string_view target) { return ends_in(target, expert); });
  };
  return {named(router), named(all.expert_gate), named(all.expert_up), named(all.expert_down)};
}

namespace {

/// A delta net's layer's input and output.
std::pair<std::int64_t, std::int64_t> widths_in_delta(const model::ModelSpec& spec, Module leaf) {
  const model::DeltaNet& delta = *spec.delta;
  const std::int64_t h = spec.hidden, heads = delta.value_heads, values = heads * delta.value_dim,
                     channels = 2 * delta.key_heads * delta.key_dim + values;
  switch (leaf) {
    case Module::qkv_proj:
      return {h, model::class_facts(spec.family).delta_apart ? channels : channels + values};
    case Module::ba_proj:
      return {h, 2 * heads};
    case Module::z_proj:
      return {h, values};
    case Module::o_proj:
      return {values, h};
    default:
      return {h, heads};
  }
}

/// A layer's input and output, of an MLP of `wide`.
std::pair<std::int64_t, std::int64_t> widths(const model::ModelSpec& spec, Module leaf,
                                             std::int64_t wide) {
  const std::int64_t h = spec.hidden, q = spec.heads * spec.head_dim,
                     kv = spec.kv_heads * spec.head_dim;
  switch (leaf) {
    case Module::q_proj:
      return {h, spec.gated_attention ? 2 * q : q};
    case Module::k_proj:
    case Module::v_proj:
      return {h, kv};
    case Module::qkv_proj:
      return {h, q + 2 * kv};
    case Module::o_proj:
      return {q, h};
    case Module::gate_up_proj:
      return {h, 2 * wide};
    case Module::down_proj:
      return {wide, h};
    case Module::mlp:
      return {h, 1};
    default:
      return {h, wide};
  }
}

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> adapted_widths(const model::ModelSpec& spec,
                                                                  const StepConfig& config,
                                                                  std::int16_t block) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  const bool shared = has_experts(spec, block);
  for (const Module leaf : linear_layers(spec, block)) {
    if (!adapts(spec, config, {block, leaf})) continue;
    if (spec.has_delta(block) && !of_mlp(leaf) && leaf != Module::mlp) {
      all.push_back(widths_in_delta(spec, leaf));
      continue;
    }
    if (of_mlp(leaf) && shared && spec.moe->shared_intermediate == 0) continue;
    all.push_back(widths(spec, leaf, shared ? spec.moe->shared_intermediate : spec.intermediate));
  }
  return all;
}

std::vector<std::pair<std::int64_t, std::int64_t>> adapted_widths(const model::ModelSpec& spec,
                                                                  const StepConfig& config) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (std::int16_t block = 0; block < spec.layers; ++block)
    for (const auto& both : adapted_widths(spec, config, block))
      if (std::find(all.begin(), all.end(), both) == all.end()) all.push_back(both);
  return all;
}

std::int64_t lora_parameters(const model::ModelSpec& spec, const StepConfig& config) {
  std::int64_t all = 0;
  for (std::int16_t block = 0; block < spec.layers; ++block)
    for (const auto& [in, out] : adapted_widths(spec, config, block))
      all += config.adapters.rank * (in + out) + (config.adapters.dora ? out : 0);
  return all;
}

bool scales_input(const model::ModelSpec& spec, ir::ModulePath layer) {
  return names(spec, model::feedforward_targets(spec.family), layer);
}

namespace {

/// What transformers calls a block's norms, and the last, in the families that PEFT knows.
std::string_view norm_name(const model::ModelSpec& spec, Module leaf) {
  const bool two_at_once = spec.side_by_side && !spec.shared_norm;  // falcon's ln_attn and ln_mlp
  switch (leaf) {
    case Module::norm1:
      return spec.family == "gpt2" || spec.family == "gptj" ? "ln_1"
             : two_at_once                                  ? "ln_attn"
                                                            : "input_layernorm";
    case Module::norm2:
      return spec.family == "gpt2" ? "ln_2"
             : two_at_once         ? "ln_mlp"
             : spec.sandwich_norms ? "pre_feedforward_layernorm"
                                   : "post_attention_layernorm";
    case Module::post_attention_norm:
      return "post_attention_layernorm";
    case Module::post_mlp_norm:
      return "post_feedforward_layernorm";
    case Module::final_norm:
      return spec.family == "phi"                                        ? "final_layernorm"
             : model::layer_names(spec.family).blocks == "transformer.h" ? "ln_f"
                                                                         : "norm";
    default:
      return {};
  }
}

}  // namespace

bool adapts(const StepConfig& config, LitgptTarget target) {
  if (!adapts_layers(config)) return false;
  if (config.adapters.targets == all_linear) return target != LitgptTarget::head;
  const auto list = split(config.adapters.targets);
  return std::find(list.begin(), list.end(), litgpt_names[static_cast<std::size_t>(target)]) !=
         list.end();
}

bool adapts_norm(const model::ModelSpec& spec, const StepConfig& config, Module leaf) {
  const std::string_view name = norm_name(spec, leaf);
  if (config.adapters.method != AdapterMethod::ln_tuning || name.empty()) return false;
  const auto list = split(model::default_targets(config.adapters.method, spec.family));
  return std::find(list.begin(), list.end(), name) != list.end();
}

namespace {

bool names_in_encoder(const model::ModelSpec& spec, std::string_view target) {
  if (!spec.tower) return false;
  const auto has = [&](const model::TensorGroup& group) {
    return std::any_of(
        group.linears.begin(), group.linears.end(),
        [&](const model::EncoderLinear& layer) { return ends_in(layer.name, target); });
  };
  return std::any_of(spec.tower->groups.begin(), spec.tower->groups.end(), has);
}

/// Blocks of a hybrid may all be of one kind: PEFT takes what names a layer of the other kind
/// beside what names one that is there.
bool names_other_kind(const model::ModelSpec& spec, const StepConfig& config,
                      std::string_view target) {
  if (!spec.delta || adapted_widths(spec, config).empty()) return false;
  const model::LayerNames& names = model::layer_names(spec.family);
  const std::string_view layers[] = {names.q, names.k, names.v, names.o};
  return std::any_of(std::begin(layers), std::end(layers),
                     [&](std::string_view layer) { return ends_in(layer, target); });
}

}  // namespace

std::string unknown_target(const model::ModelSpec& spec, const StepConfig& config) {
  const std::string_view targets = targets_of(spec, config);
  if (targets == all_linear) return {};
  if (config.litgpt()) {
    for (const std::string_view target : split(targets))
      if (std::find(std::begin(litgpt_names), std::end(litgpt_names), target) ==
          std::end(litgpt_names))
        return std::string(target);
    return {};
  }
  for (const std::string_view target : split(targets)) {
    bool found = (converts(spec, config) && names_experts(spec, target)) ||
                 names_in_encoder(spec, target) || names_other_kind(spec, config, target);
    for (std::int16_t block = 0; block < spec.layers && !found; ++block) {
      const std::vector<Module> layers = linear_layers(spec, block);
      found = std::any_of(layers.begin(), layers.end(), [&](Module leaf) {
        return names(spec, target, {block, leaf});
      });
    }
    if (!found) return std::string(target);
  }
  return {};
}

std::string layer_list(const model::ModelSpec& spec, const StepConfig& config) {
  if (config.litgpt()) return fmt::format("{}", fmt::join(litgpt_names, ", "));
  const model::LayerNames& names = model::layer_names(spec.family);
  std::vector<std::string_view> listed;
  for (std::int16_t block = 0; block < spec.layers; ++block)
    for (const Module leaf : linear_layers(spec, block)) {
      const std::string_view name = name_in_block(spec, {block, leaf});
      if (std::find(listed.begin(), listed.end(), name) == listed.end()) listed.push_back(name);
    }
  std::string text = fmt::format("{}", fmt::join(listed, ", "));
  if (converts(spec, config))
    text += fmt::format(", {}, {}, {}, {}", router, names.expert_gate, names.expert_up,
                        names.expert_down);
  return text;
}

}  // namespace ac_advisor::passes
