#include "targets.hpp"

#include <algorithm>
#include <string_view>

namespace ac_advisor::passes {
namespace {

using ir::Module;

constexpr std::string_view all_linear = "all-linear";

/// transformers' path of a linear layer of block `index`.
std::string path_of(ir::ModulePath layer) {
  constexpr std::string_view attention = "attention.";
  std::string name = ir::to_string(ir::ModulePath{-1, layer.leaf});  // "attention.q_proj"
  if (name.starts_with(attention)) name.replace(0, attention.size(), "self_attn.");
  return "model.layers." + std::to_string(layer.block) + "." + name;
}

/// peft v0.21, utils/constants.py, has q_proj and v_proj for the families that it knows.
std::string_view targets_of(const model::ModelSpec& spec, const StepConfig& config) {
  if (!config.adapters.targets.empty()) return config.adapters.targets;
  return spec.default_adapters ? "q_proj,v_proj" : "";
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

bool names(std::string_view target, ir::ModulePath layer) {
  const std::string path = path_of(layer);
  return path == target || path.ends_with("." + std::string(target));
}

}  // namespace

std::vector<Module> linear_layers(const model::ModelSpec& spec) {
  std::vector<Module> layers;
  if (spec.fused_qkv)
    layers = {Module::o_proj, Module::qkv_proj};
  else
    layers = {Module::q_proj, Module::k_proj, Module::v_proj, Module::o_proj};
  if (spec.fused_gate_up)
    layers.insert(layers.end(), {Module::gate_up_proj, Module::down_proj});
  else if (spec.plain_mlp)
    layers.insert(layers.end(), {Module::up_proj, Module::down_proj});
  else
    layers.insert(layers.end(), {Module::gate_proj, Module::up_proj, Module::down_proj});
  return layers;
}

bool adapts(const model::ModelSpec& spec, const StepConfig& config, ir::ModulePath layer) {
  if (!config.adapters.used() || layer.block < 0) return false;
  const std::string_view targets = targets_of(spec, config);
  if (targets == all_linear) return true;
  const auto list = split(targets);
  return std::any_of(list.begin(), list.end(),
                     [&](std::string_view target) { return names(target, layer); });
}

bool adapts_attention_alone(const model::ModelSpec& spec, const StepConfig& config) {
  if (targets_of(spec, config) == all_linear) return false;
  const std::vector<Module> layers = linear_layers(spec);
  return std::none_of(layers.begin(), layers.end(), [&](Module leaf) {
    if (leaf == Module::q_proj || leaf == Module::k_proj || leaf == Module::v_proj ||
        leaf == Module::o_proj || leaf == Module::qkv_proj)
      return false;
    for (std::int16_t block = 0; block < spec.layers; ++block)
      if (adapts(spec, config, {block, leaf})) return true;
    return false;
  });
}

std::string unknown_target(const model::ModelSpec& spec, const StepConfig& config) {
  const std::string_view targets = targets_of(spec, config);
  if (targets == all_linear) return {};
  const std::vector<Module> layers = linear_layers(spec);
  for (const std::string_view target : split(targets)) {
    bool found = false;
    for (std::int16_t block = 0; block < spec.layers && !found; ++block)
      found = std::any_of(layers.begin(), layers.end(), [&](Module leaf) {
        return names(target, {block, leaf});
      });
    if (!found) return std::string(target);
  }
  return {};
}

}  // namespace ac_advisor::passes
