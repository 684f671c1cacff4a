#include "savings.hpp"

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "variants.hpp"

namespace ac_advisor::advise {
namespace {

const char* technique(Sharding shard) {
  switch (shard) {
    case Sharding::none:
      return "none";
    case Sharding::ddp:
      return "DDP";
    case Sharding::zero1:
      return "ZeRO-1";
    case Sharding::zero2:
      return "ZeRO-2";
    case Sharding::zero3:
      return "ZeRO-3";
    case Sharding::fsdp1:
      return "FSDP1";
    case Sharding::fsdp2:
      return "FSDP";
    case Sharding::hsdp:
      return "HSDP";
  }
  return "";
}

std::string sharding_name(const StepConfig& c) {
  return std::string("+ ") + technique(c.layout.shard) + " (dp " +
         std::to_string(c.layout.data_ranks()) +
         (c.layout.cp > 1 ? ", cp " + std::to_string(c.layout.cp) : "") + ")";
}

std::string tp_name(const StepConfig& c) {
  return "+ tensor parallelism (tp " + std::to_string(c.layout.tp) + ")";
}

/// Without parts of sequences neither step can be taken alone.
std::string tp_and_sharding_name(const StepConfig& c) {
  return tp_name(c) + " " + sharding_name(c);
}

}  // namespace

void add_savings(Sweep& sweep, const std::optional<OptionList>& hand) {
  const model::ModelSpec& model = sweep.model;
  const StepConfig& base = sweep.base;
  const Variants variants(model, base, hand);
  std::vector<Saving>& table = sweep.savings;
  const auto add = [&](const auto& technique, const OptionList& values) {
    // What contradicts here was refused when the base was resolved.
    const StepConfig c = variants.with(values).value_or(base);
    if (const passes::Exclusion* excluded = passes::find_exclusion(model, c)) {
      sweep.not_planned.push_back({technique(c), passes::message(*excluded, model, c)});
      return;
    }
    const profile::Profile p = plan(model, c, false);
    Saving row;
    row.technique = technique(c);
    row.config = c;
    row.peak_bytes = p.memory.peak_allocated;
    row.step_seconds = p.time.step;
    row.unavailable = unavailable(model, c);
    if (!table.empty()) {
      row.saved_bytes = table.back().peak_bytes - row.peak_bytes;
      row.saved_share =
          1.0 - static_cast<double>(row.peak_bytes) / static_cast<double>(table.front().peak_bytes);
    }
    table.push_back(row);
  };
  const std::string ac = base.memory.ac == AcMode::none ? "full" : ac_option(base);
  const bool whole = base.memory.loss == LossKind::ce && base.layout.tp == 1;
  const std::string loss = whole ? "lc-ce" : loss_option(base);
  add([](const StepConfig&) { return "Baseline"; }, {{"--ac", "none"},
                                                     {"--loss", "ce"},
                                                     {"--world", "1"},
                                                     {"--tp", "1"},
                                                     {"--cp", "1"},
                                                     {"--ep", "1"},
                                                     {"--etp", "0"},
                                                     {"--shard", "none"}});
  const bool together = base.layout.has_whole_tokens();
  if (base.layout.tp > 1 && !together)
    add(tp_name, {{"--ac", "none"},
                  {"--loss", "ce"},
                  {"--world", std::to_string(base.layout.tp)},
                  {"--cp", "1"},
                  {"--ep", "1"},
                  {"--shard", "none"}});
  if (base.layout.replica_ranks() > 1)
    add(together ? tp_and_sharding_name : sharding_name, {{"--ac", "none"}, {"--loss", "ce"}});
  add([](const StepConfig& c) { return "+ checkpointing (" + ac_option(c) + ")"; },
      {{"--ac", ac}, {"--loss", "ce"}});
  if (loss == "ce") return;  // tensor parallelism has no other
  // Its own chunk: Liger chooses it by the batch.
  add(
      [](const StepConfig& c) {
        return c.memory.loss == LossKind::lc_ce ? "+ LC-CE" : "+ " + loss_option(c);
      },
      {{"--ac", ac}, {"--loss", loss}});
}

}  // namespace ac_advisor::advise
