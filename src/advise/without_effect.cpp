#include "without_effect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::advise {
namespace {

using model::ModelSpec;

const simulate::Device& device_of(const StepConfig& c) {
  return simulate::find_device(c.device.gpu);
}

bool of_8_bits(const StepConfig& c) {
  return c.optimizer.kind == Optimizer::adamw_8bit ||
         c.optimizer.kind == Optimizer::paged_adamw_8bit;
}

/// An option, what has to be so for it to change the step, and what is said where it is not.
struct Effect {
  std::string_view key;
  bool (*acts)(const ModelSpec&, const StepConfig&);
  const char* because;
};
constexpr Effect effects[] = {
    {"threads", [](const ModelSpec&, const StepConfig& c) { return !device_of(c).cuda; },
     "the device is a GPU; threads are those of --gpu cpu"},
    {"node_size", [](const ModelSpec&, const StepConfig& c) { return c.layout.world > 1; },
     "one rank sends nothing"},
    {"node_size",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.world > device_of(c).ranks_of_node(0) ||
              c.layout.world > device_of(c).ranks_of_node(c.layout.node_size);
     },
     "all ranks are of one node, with it and without"},
    {"network_gbps",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.world > device_of(c).ranks_of_node(c.layout.node_size);
     },
     "all ranks are of one node, whose links join them"},
    {"reduce_dtype",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.replica_ranks() > 1 || c.megatron();
     },
     "no other rank has these parameters, so no gradients are reduced"},
    {"reduce_dtype",
     [](const ModelSpec&, const StepConfig& c) { return c.layout.fsdp() || c.megatron(); },
     "gradients are reduced in their own dtype; FSDP and Megatron-core have another for it"},
    {"ac_scope", [](const ModelSpec&, const StepConfig& c) { return c.memory.ac != AcMode::none; },
     "nothing is checkpointed"},
    {"fsdp_unit",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.fsdp_unit != FsdpUnit::segment || c.memory.ac == AcMode::grouped;
     },
     "segments are those of --ac grouped:K; units are blocks"},
    {"no_sync", [](const ModelSpec&, const StepConfig& c) { return c.run.grad_accum > 1; },
     "a step has one micro-batch, which reduces its gradients"},
    {"held_until_next_forward", [](const ModelSpec&, const StepConfig& c) { return !c.megatron(); },
     "Megatron-core's schedule keeps no output"},
    {"capacity_factor",
     [](const ModelSpec& m, const StepConfig&) { return m.moe && !m.moe->every_expert; },
     "the model has no experts that tokens are routed to"},
    {"balanced_routing", [](const ModelSpec& m, const StepConfig&) { return m.moe.has_value(); },
     "the model has no experts that tokens are routed to"},
    {"freeze",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.tower.has_value() || c.run.frozen.decoder;
     },
     "the model has no encoder of images"},
    {"overlap_comm", [](const ModelSpec&, const StepConfig& c) { return !c.megatron(); },
     "it is about DeepSpeed's buckets; Megatron-core has its own"},
    {"fp32_embedding_states", [](const ModelSpec&, const StepConfig& c) { return of_8_bits(c); },
     "it is about bitsandbytes' 8-bit optimizers: --optimizer adamw-8bit or paged-adamw-8bit"},
    {"compile_unit",
     [](const ModelSpec&, const StepConfig& c) { return c.memory.kernels == Kernels::compiled; },
     "nothing is compiled; give --kernels compiled"},
    {"expandable_segments", [](const ModelSpec&, const StepConfig& c) { return device_of(c).cuda; },
     "the device is a CPU, whose allocator has no segments"},
    {"cublas_workspace", [](const ModelSpec&, const StepConfig& c) { return device_of(c).cuda; },
     "the device is a CPU, which has no cuBLAS"},
    {"deterministic",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe.has_value() || c.run.attention == Attention::flash;
     },
     "it changes how experts' tokens are put back, and FlashAttention's backward; the model has no "
     "experts, and --attn is not flash"},
};

/// Why the option changes nothing; null: it does.
const Effect* without(std::string_view key, const ModelSpec& model, const StepConfig& config) {
  const auto* const found =
      std::find_if(std::begin(effects), std::end(effects),
                   [&](const Effect& e) { return e.key == key && !e.acts(model, config); });
  return found == std::end(effects) ? nullptr : found;
}

}  // namespace

bool changes_step(std::string_view key, const ModelSpec& model, const StepConfig& config) {
  return without(key, model, config) == nullptr;
}

StepConfig with_effects_alone(const ModelSpec& model, StepConfig config) {
  const StepConfig defaults;
  for (const Effect& effect : effects) {
    const OptionRow* row = find_option_key(effect.key);
    if (!effect.acts(model, config)) row->set(*row, row->get(defaults), config);
  }
  return config;
}

std::vector<std::string> without_effect(const ModelSpec& model, const OptionList& by_hand,
                                        const StepConfig& config) {
  std::vector<std::string> told;
  for (const auto& [option, value] : by_hand) {
    const OptionRow* row = find_option(option);
    const Effect* effect = row != nullptr ? without(row->key, model, config) : nullptr;
    if (effect == nullptr) continue;
    told.push_back(fmt::format("{}{}{} has no effect: {}", option, value.empty() ? "" : " ", value,
                               effect->because));
  }
  std::sort(told.begin(), told.end());  // in whatever order the options were given
  return told;
}

}  // namespace ac_advisor::advise
