// Whether DistributedDataParallel's communication hooks pay: one plan a hook and network.
#include "ac_advisor/advise/compression_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::advise {
namespace {

/// The hooks' mildest settings: a rank and a ratio at which others have trained
/// (docs/compression.md has what they do to a loss here).
constexpr const char* hooks[] = {"none", "bf16", "powersgd:1", "powersgd:2", "topk:0.05"};
/// Ethernet's usual rates, then what --network has names for, the slowest first.
constexpr const char* networks[] = {"10", "25", "efa-p4d", "edr", "hdr", "ndr", "xdr"};
constexpr double least_gain = 0.01;  // of a step: estimates are no finer

StepConfig settled(const model::ModelSpec& model, OptionList by_hand, const std::string& network,
                   const std::string& hook) {
  if (!network.empty()) by_hand.emplace_back("--network", network);
  if (hook != "none") by_hand.emplace_back("--grad-compression", hook);
  return resolve(model, by_hand).config;
}

CompressedStep step_of(const model::ModelSpec& model, const StepConfig& config,
                       profile::Memory& memory) {
  CompressedStep step;
  if (const passes::Exclusion* row = passes::find_exclusion(model, config)) {
    step.refused = passes::message(*row, model, config);
    return step;
  }
  const profile::Profile p = plan(model, config, false);
  memory = p.memory;
  step.seconds = p.time.step;
  step.fits = p.fit.fits;
  return step;
}

std::size_t best_of(const std::vector<CompressedStep>& steps) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (!steps[i].refused.empty() || !steps[i].fits) continue;
    const bool pays = steps[i].seconds <= steps[0].seconds * (1 - least_gain);
    if (pays && (best == 0 || steps[i].seconds < steps[best].seconds)) best = i;
  }
  return best;
}

std::string named(const NetworkRow& row) {
  const std::string rate = fmt::format("{:g} Gbit/s per GPU", row.gbps);
  const bool number = row.network.find_first_not_of("0123456789.") == std::string::npos;
  return number ? rate : fmt::format("{} ({})", row.network, rate);
}

/// "bf16: 781 ms a step in place of 1210 (35 % less), for 0.00 GiB more reserved".
std::string gain(const CompressionChoice& c, const NetworkRow& row) {
  const CompressedStep &without = row.steps[0], &with = row.steps[row.best];
  constexpr double unit = 1 << 30;
  const auto more =
      static_cast<double>(c.memory[row.best].peak_reserved - c.memory[0].peak_reserved);
  return fmt::format(
      "{}, {:.0f} ms per step instead of {:.0f} ({:.0f} % less), for {:.2f} GiB more reserved",
      c.hooks[row.best], with.seconds * 1e3, without.seconds * 1e3,
      100 * (1 - with.seconds / without.seconds), more / unit);
}

std::string answer_of(const CompressionChoice& c) {
  if (c.rows.size() == 1 && c.rows.front().gbps == 0 && c.rows.front().best == 0)
    return "Within a node no compression pays: links carry a bucket faster than a hook makes it "
           "smaller. With more ranks than a node has (--world, --node-size) a network joins them.";
  std::string text;
  const NetworkRow* fastest = nullptr;  // on which something pays
  for (const NetworkRow& row : c.rows)
    if (row.best != 0) fastest = &row;
  if (fastest == nullptr) {
    text = "No compression makes a step a hundredth faster over any of these networks.";
  } else {
    const bool all = fastest == &c.rows.back(), one = fastest == &c.rows.front();
    text = fmt::format("{} {} compression pays: {}", one ? "Over" : "Up to", named(*fastest),
                       gain(c, *fastest));
    if (!all) text += "; over faster networks none does";
    if (!one && c.rows.front().best != 0)
      text += fmt::format("; over {}: {}", named(c.rows.front()), gain(c, c.rows.front()));
    text += ".";
  }
  return text +
         " These are times alone, estimates: what a hook does to the loss is another question "
         "(docs/compression.md).";
}

}  // namespace

CompressionChoice compression_choice(const model::ModelSpec& model,
                                     const OptionList& given_by_hand) {
  OptionList by_hand = given_by_hand;
  if (!given(by_hand, "--shard")) by_hand.emplace_back("--shard", "ddp");
  CompressionChoice c;
  c.model = model;
  c.base = resolve(model, by_hand).config;
  if (c.base.layout.shard != Sharding::ddp)
    throw UserError("--grad-compression auto --shard " + shard_option(c.base) +
                    ": hooks are DistributedDataParallel's; use --shard ddp");
  if (const passes::Exclusion* row = passes::find_exclusion(model, c.base))
    throw UserError(passes::message(*row, model, c.base));
  c.hooks.assign(std::begin(hooks), std::end(hooks));
  c.memory.resize(c.hooks.size());
  const simulate::Device& device = simulate::find_device(c.base.device.gpu);
  const bool in_node = c.base.layout.world <= device.ranks_of_node(c.base.layout.node_size);
  std::vector<std::string> asked;
  if (in_node || given(by_hand, "--network"))
    asked.emplace_back();
  else
    asked.assign(std::begin(networks), std::end(networks));
  for (const std::string& network : asked) {
    NetworkRow row;
    row.network = network;
    for (std::size_t i = 0; i < c.hooks.size(); ++i) {
      const StepConfig config = settled(model, by_hand, network, c.hooks[i]);
      row.gbps = in_node ? 0 : config.layout.network_gbps;
      row.steps.push_back(step_of(model, config, c.memory[i]));
    }
    if (network.empty()) row.network = in_node ? "links" : fmt::format("{:g}", row.gbps);
    row.best = best_of(row.steps);
    c.rows.push_back(std::move(row));
  }
  c.answer = answer_of(c);
  return c;
}

}  // namespace ac_advisor::advise
