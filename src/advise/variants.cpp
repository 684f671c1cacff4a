#include "variants.hpp"

#include <algorithm>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::advise {
namespace {

/// What no option says: whose step it is.
void copy_internal(const StepConfig& from, StepConfig& to) {
  for (const OptionRow& row : option_table())
    if (!row.on_command_line() && row.key != "block_modes") row.set(row, row.get(from), to);
}

OptionList options_that_give(const StepConfig& base) {
  StepConfig said = base;
  copy_internal(StepConfig{}, said);
  const auto few = options_of(said);
  return few ? *few : all_options_of(said);
}

}  // namespace

bool settle_chunk(const model::ModelSpec& model, const OptionList& by_hand, StepConfig& config) {
  if (config.memory.loss != LossKind::chunked || !chunks_as_liger(config) ||
      given(by_hand, "--loss"))
    return false;
  config.memory.chunk_tokens = liger_chunk(model, config);
  return true;
}

std::vector<std::int64_t> uneven_stages(const model::ModelSpec& model, const Layout& layout) {
  const std::int64_t pp = layout.pp;
  if (pp < 2 || layout.pp_chunks > 1 || model.layers % pp == 0) return {};
  const std::int64_t each = (model.layers + pp - 1) / pp, last = model.layers - each * (pp - 1);
  if (last < 1) return {};
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(pp), each);
  blocks.back() = last;
  return blocks;
}

Variants::Variants(const model::ModelSpec& model, const StepConfig& base,
                   const std::optional<OptionList>& hand)
    : model_(model), base_(base), hand_(hand ? *hand : options_that_give(base)) {
  // The micro-batch and its number are said each time, so that they cannot contradict it.
  std::erase_if(hand_, [](const auto& option) {
    return option.first == global_batch_option || option.first == "--batch" ||
           option.first == "--grad-accum";
  });
  try {
    resolver_.emplace(hand_);
  } catch (const UserError&) {  // then there is none of them
  }
}

StepConfig Variants::settled(StepConfig config) const {
  if (config.verl())  // each row is a document
    config.run.packing = config.run.batch;
  else if (base_.run.packing >
           0)  // rows of other sizes have as long documents as the base's, or one
    config.run.packing =
        std::max<std::int64_t>(1, base_.run.packing * (config.run.batch * config.run.seq) /
                                      (base_.run.batch * base_.run.seq));
  if (config.megatron() && config.layout.pp != base_.layout.pp && config.layout.pp_layers.empty())
    config.layout.pp_layers = uneven_stages(model_, config.layout);
  settle_chunk(model_, hand_, config);
  return config;
}

/// Whether the preset's own layers, which nobody asked for by hand, are in this variant's way: as
/// in `resolve`, its loop is planned around transformers' then.
bool Variants::takes_others_layers(const StepConfig& config) const {
  return model::has_own_layers(config.run.transformer_impl) &&
         !given(hand_, "--transformer-impl") && passes::find_exclusion(model_, config) != nullptr;
}

std::optional<StepConfig> Variants::with(OptionList values) const {
  if (!resolver_) return std::nullopt;
  if (!given(values, "--batch")) values.emplace_back("--batch", std::to_string(base_.run.batch));
  if (!given(values, "--grad-accum"))
    values.emplace_back("--grad-accum", std::to_string(base_.run.grad_accum));
  try {
    StepConfig config = resolver_->with(values);
    copy_internal(base_, config);
    if (takes_others_layers(config)) {
      values.emplace_back("--transformer-impl", "hf");
      StepConfig around = resolver_->with(values);
      copy_internal(base_, around);
      config = std::move(around);
    }
    return settled(std::move(config));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace ac_advisor::advise
