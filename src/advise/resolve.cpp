#include "ac_advisor/advise/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "variants.hpp"
#include "without_effect.hpp"

namespace ac_advisor::advise {
namespace {

/// "--attn auto", "--no-hold-output"; empty where no words say the default.
OptionList default_of(const OptionRow& row) {
  static const StepConfig plain;
  if (!row.metavar.empty()) return {{std::string(row.name), row.text(plain)}};
  const bool on = row.text(plain) == "true";
  if (!on && row.off.empty()) return {};
  return {{std::string(on ? row.name : row.off), ""}};
}

/// Absent: the options contradict each other (eight ranks that share nothing).
std::optional<StepConfig> settled(const OptionList& options) {
  try {
    return resolve_options(options);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// Where an exclusion stands among all, in the order in which they are asked; none: after all.
std::size_t place_of(const passes::Exclusion* one) {
  std::size_t place = 0;
  for (const passes::ExclusionGroup& group : passes::exclusions())
    for (const passes::Exclusion& e : group.exclusions) {
      if (&e == one) return place;
      ++place;
    }
  return place;
}

/// The same options under the plain loop's preset, which has the table's defaults: what is
/// otherwise there is the framework's doing, the rest that of the options by hand.
std::optional<StepConfig> without_framework(const OptionList& options) {
  OptionList plain = options;
  std::erase_if(plain, [](const auto& option) { return option.first == "--framework"; });
  return settled(plain);
}

/// Whether a plan with these options is refused, whatever else of a preset gives way.
bool refused_with(const model::ModelSpec& model, const OptionList& options) {
  try {
    return passes::find_exclusion(model, resolve(model, options).config) != nullptr;
  } catch (const UserError&) {
    return true;
  }
}

/// A preset's choice whose default the model can take, or with which what is refused is asked
/// later; null: none is in the way.
const OptionRow* in_the_way(const model::ModelSpec& model, const Resolved& resolved,
                            const passes::Exclusion* excluded) {
  const auto plain = without_framework(resolved.options);
  for (const OptionRow& row : option_table()) {
    const bool by_hand =
        std::any_of(resolved.options.begin(), resolved.options.end(),
                    [&](const auto& option) { return find_option(option.first) == &row; }) ||
        (plain && row.text(*plain) == row.text(resolved.config));
    const OptionList other = default_of(row);
    // What a step trains for is what the framework's name asks for, and so is whose layers it has
    // where its loop is not planned around transformers', too.
    const bool asked_for = by_hand || row.key == "task" ||
                           (row.key == "transformer_impl" &&
                            resolved.config.run.transformer_impl == TransformerImpl::litgpt);
    if (!row.on_command_line() || asked_for || row.is_default(resolved.config) || other.empty())
      continue;
    OptionList list = resolved.options;
    list.push_back(other.front());
    // Another loop's layers are no answer where they are refused, too.
    if (row.key == "transformer_impl" && resolved.config.megatron() && refused_with(model, list))
      continue;
    const auto config = settled(list);
    if (config && place_of(passes::find_exclusion(model, *config)) > place_of(excluded))
      return &row;
  }
  return nullptr;
}

/// With the batch, the sequence and the dtype that a graph was captured with, where others were not
/// given.
OptionList with_captured(const model::ModelSpec& model, const OptionList& options) {
  if (!model.graph) return options;
  OptionList all;
  const auto captured = [&](const char* name, const std::string& value) {
    if (!given(options, name)) all.emplace_back(name, value);
  };
  captured("--batch", std::to_string(model.graph->batch));
  captured("--seq", std::to_string(model.graph->seq));
  if (model.graph->autocast)
    captured("--autocast", "bf16");
  else if (graph::parameter_dtype(*model.graph) == graph::DType::float32)
    for (const char* dtype : {"--param-dtype", "--compute-dtype"}) captured(dtype, "fp32");
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

}  // namespace

Resolved resolve(const model::ModelSpec& model, const OptionList& by_hand) {
  const OptionList options = with_captured(model, by_hand);
  Resolved resolved{options, {}, resolve_options(options), {}, false};
  while (const passes::Exclusion* excluded = passes::find_exclusion(model, resolved.config)) {
    const OptionRow* row = in_the_way(model, resolved, excluded);
    if (row == nullptr) break;
    const auto other = default_of(*row).front();
    resolved.others_layers = resolved.others_layers || row->key == "transformer_impl";
    resolved.notes.push_back(
        fmt::format("--framework {} has {} {}, which {} cannot take ({}): {} {} is planned instead",
                    resolved.config.runtime.framework, row->name, row->text(resolved.config),
                    model.name, excluded->reason, other.first, other.second));
    resolved.options.push_back(other);
    resolved.config = resolve_options(resolved.options);
  }
  if (settle_chunk(model, resolved.options, resolved.config))
    resolved.derived.emplace_back("--loss", loss_option(resolved.config));
  for (std::string& note : without_effect(model, by_hand, resolved.config))
    resolved.notes.push_back(std::move(note));
  return resolved;
}

}  // namespace ac_advisor::advise
