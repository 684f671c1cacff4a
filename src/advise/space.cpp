// What a sweep varies: options of the table and their texts.
#include <algorithm>
#include <stdexcept>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::advise {
namespace {

constexpr std::int64_t default_chunk_tokens = 1024;  // Liger's order of magnitude: an estimate

std::string text_of(const std::string& option, const StepConfig& config) {
  const OptionRow* row = find_option(option);
  if (row == nullptr) throw std::logic_error(option + " is no option");
  return row->text(config);
}

/// The base with one value of each axis, in its order; null where that says nothing new.
std::optional<StepConfig> at(const StepConfig& base, const Space& space,
                             const std::vector<std::size_t>& index) {
  StepConfig c = base;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const OptionRow& row = *find_option(space.axes[i].option);
    row.parse(row, row.name, space.axes[i].values[index[i]], c);
  }
  // Liger's loss returns no logits to hold.
  if (c.memory.loss == LossKind::chunked) c.memory.hold_output = false;
  if (!c.layout.gathers()) c.layout.keep_last_block = false;
  // Without checkpointing a scope says nothing: the first one stands for all.
  for (std::size_t i = 0; i < space.axes.size(); ++i)
    if (space.axes[i].option == "--ac-scope" && index[i] > 0 && c.memory.ac == AcMode::none)
      return std::nullopt;
  return c;
}

}  // namespace

void Space::set(const std::string& option, std::vector<std::string> values) {
  for (Axis& axis : axes)
    if (axis.option == option) {
      axis.values = std::move(values);
      return;
    }
  axes.push_back({option, std::move(values)});
}

void Space::keep(const std::string& option, const StepConfig& base) {
  set(option, {text_of(option, base)});
}

Space default_space(const model::ModelSpec& model, const StepConfig& base) {
  Space space;
  std::vector<std::string> batches;
  for (const std::int64_t batch : {base.run.batch / 2, base.run.batch, base.run.batch * 2})
    if (batch > 0) batches.push_back(std::to_string(batch));
  space.set("--batch", std::move(batches));
  if (base.layout.world > 1) {
    std::vector<std::string> shards{"ddp", "fsdp2"};
    const std::string own = text_of("--shard", base);
    if (std::find(shards.begin(), shards.end(), own) == shards.end()) shards.push_back(own);
    space.set("--shard", std::move(shards));
  }
  space.set("--kernels", {"eager", "fused"});
  const std::int64_t chunk =
      base.memory.chunk_tokens > 0 ? base.memory.chunk_tokens : default_chunk_tokens;
  space.set("--loss", {"ce", "lc-ce", "chunked:" + std::to_string(chunk)});
  space.set("--ac-scope", {"block", "submodule"});
  std::vector<std::string> modes{"none", "full", "selective", "attention"};
  for (const std::int64_t k : {2, 4, 8})
    if (k < model.layers) modes.push_back("grouped:" + std::to_string(k));
  modes.emplace_back("sqrt");
  space.set("--ac", std::move(modes));
  return space;
}

Space space_around(const model::ModelSpec& model, const StepConfig& base,
                   const OptionList& by_hand) {
  Space space = default_space(model, base);
  const auto settled = [&](const Axis& axis) {
    return axis.option != "--batch" &&
           std::any_of(by_hand.begin(), by_hand.end(),
                       [&](const auto& option) { return option.first == axis.option; });
  };
  for (const Axis& axis : std::vector(space.axes))
    if (settled(axis)) space.keep(axis.option, base);
  return space;
}

std::vector<StepConfig> combinations(const model::ModelSpec& model, const StepConfig& base,
                                     const Space& space) {
  std::vector<StepConfig> list;
  std::vector<std::size_t> index(space.axes.size(), 0);
  for (bool more = true; more;) {
    if (std::optional<StepConfig> c = at(base, space, index);
        c && passes::find_exclusion(model, *c) == nullptr)
      list.push_back(std::move(*c));
    more = false;
    for (std::size_t i = index.size(); i-- > 0 && !more;) {
      more = ++index[i] < space.axes[i].values.size();
      if (!more) index[i] = 0;
    }
  }
  return list;
}

}  // namespace ac_advisor::advise
