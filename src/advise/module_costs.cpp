#include "ac_advisor/advise/module_costs.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/module_kind.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "planned.hpp"

namespace ac_advisor::advise {
namespace {

using passes::ModuleKind;

struct Kind {
  const char* name;
  std::optional<ModuleKind> module;  ///< none: whole blocks
};
constexpr Kind kinds[] = {{"norms", ModuleKind::norm},
                          {"projections", ModuleKind::projection},
                          {"attention core", ModuleKind::attention_core},
                          {"MLP", ModuleKind::mlp},
                          {"whole block", std::nullopt},
                          {"embedding", ModuleKind::embedding},
                          {"loss", ModuleKind::loss}};

bool is_of(const Kind& kind, ir::ModulePath path) {
  return kind.module ? passes::module_of(*kind.module, path.leaf) != ir::Module::root
                     : path.block >= 0;
}

/// A planned step, and what its first forward leaves alive for backward.
struct Planned {
  passes::StepProgram step;
  std::vector<std::pair<ir::ModulePath, std::int64_t>> kept;  ///< by the module that made it
  std::int64_t kept_bytes = 0, peak = 0;
  double recompute = 0, seconds = 0;
};

Planned planned(const model::ModelSpec& model, const StepConfig& config,
                const simulate::Device& device) {
  Planned result{passes::build_step(model, config), {}, 0, 0, 0, 0};
  const ir::Program& p = result.step.program;
  const passes::Schedule schedule = passes::make_schedule(result.step);
  const simulate::MemoryModel memory = memory_model(result.step, schedule, device, config);
  ir::OpId backward = 0;
  while (p.op(backward).phase < ir::Phase::backward) ++backward;
  std::vector<bool> seen(p.storages.size(), false);
  for (ir::OpId id = 0; id < backward; ++id)
    for (const ir::ValueId v : p.outputs(p.op(id))) {
      const ir::StorageId s = p.storage_of(v);
      const auto i = static_cast<std::size_t>(s);
      const ir::OpId last = schedule.last_use[i];
      const bool gathered = p.op(id).module.leaf == ir::Module::fsdp;
      if (seen[i] || gathered || last == ir::no_id || last < backward) continue;
      seen[i] = true;
      const std::int64_t bytes = simulate::allocated_size(p.storage(s).bytes, memory.round_to_512);
      result.kept.emplace_back(p.op(id).module, bytes);
      result.kept_bytes += bytes;
    }
  result.peak = simulate::walk_memory(result.step, schedule, memory).peak;
  const simulate::StepTime time = simulate::walk_time(result.step, device, simulate::run_of(config),
                                                      1, config.runtime.cuda_graph);
  result.recompute = time.by_phase[static_cast<std::size_t>(ir::Phase::recompute)];
  result.seconds = time.step;
  return result;
}

StepConfig recomputing(StepConfig config, const Kind& kind) {
  config.memory.ac = kind.module ? AcMode::attention : AcMode::full;
  config.memory.ac_arg = kind.module ? static_cast<std::int64_t>(*kind.module) : 0;
  return config;
}

}  // namespace

double ModuleCost::saved_bytes_per_millisecond() const {
  if (saved_bytes <= 0) return 0;
  if (recompute_seconds <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(saved_bytes) / (1e3 * recompute_seconds);
}

ModuleCosts module_costs(const model::ModelSpec& model, const StepConfig& requested) {
  StepConfig config = requested;
  config.memory.ac = AcMode::none;
  config.memory.ac_arg = 0;
  config.memory.block_modes.clear();
  config.memory.scope = AcScope::block;
  config.run.grad_accum = 1;
  if (passes::find_exclusion(model, config) != nullptr) return {};  // nothing to compare with
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  const Planned none = planned(model, config, device);
  ModuleCosts costs;
  const auto kept_by = [&](const auto& which) {
    std::int64_t bytes = 0;
    for (const auto& [path, size] : none.kept)
      if (which(path)) bytes += size;
    return bytes;
  };
  for (const Kind& kind : kinds) {
    const StepConfig with_kind = recomputing(config, kind);
    const bool whole = !kind.module;
    if ((whole && model.kv_sharing) || passes::find_exclusion(model, with_kind) != nullptr)
      continue;
    const Planned with = planned(model, with_kind, device);
    // A compiled backward recomputes within its own kernels.
    const bool within = config.memory.kernels == Kernels::compiled;
    const double recompute = within ? with.seconds - none.seconds : with.recompute;
    costs.kinds.push_back(
        {kind.name, kept_by([&](ir::ModulePath path) { return is_of(kind, path); }),
         none.kept_bytes - with.kept_bytes, recompute, with.peak, none.peak - with.peak});
  }
  costs.kept_elsewhere_bytes = kept_by([&](ir::ModulePath path) {
    return std::none_of(std::begin(kinds), std::end(kinds),
                        [&](const Kind& kind) { return kind.module && is_of(kind, path); });
  });
  std::stable_sort(costs.kinds.begin(), costs.kinds.end(),
                   [](const ModuleCost& a, const ModuleCost& b) {
                     return a.saved_bytes_per_millisecond() > b.saved_bytes_per_millisecond();
                   });
  return costs;
}

std::string checkpoint_order(const ModuleCosts& costs) {
  std::string text;
  for (const ModuleCost& cost : costs.kinds)
    if (cost.saved_bytes > 0) text += (text.empty() ? "" : ", then ") + cost.kind;
  return text.empty() ? "none of them saves anything" : text;
}

}  // namespace ac_advisor::advise
