#include "rank_simulation.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/model/sized.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/pipeline.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "budget.hpp"

namespace ac_advisor::advise {
namespace {

profile::Counts count(const passes::StepProgram& step, std::int64_t grad_accum, bool trainer,
                      TorchVersion torch) {
  profile::Counts counts;
  const ir::Program& p = step.program;
  std::int64_t weight = 1;
  const std::vector<passes::Stretch> stretches = passes::stretches_of(step, grad_accum);
  std::size_t next = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    for (; next < stretches.size() && static_cast<std::size_t>(stretches[next].begin) == i; ++next)
      weight = stretches[next].runs;
    if (op.phase == ir::Phase::optimizer) weight = 1;
    const auto phase = static_cast<std::size_t>(op.phase);
    counts.launches[phase] += weight * ir::launches(p, op, trainer, torch);
    counts.dispatches[phase] += weight * ir::dispatches(op);
    counts.flops[phase] += static_cast<double>(weight) * ir::flops(p, op);
    counts.bytes[phase] += static_cast<double>(weight) * ir::traffic_bytes(p, op);
  }
  return counts;
}

std::int64_t trained_elements(const passes::StepProgram& step) {
  std::int64_t trained = 0;
  for (const passes::Parameter& parameter : step.parameters)
    if (parameter.trained && parameter.stepped)
      trained += step.program.value(parameter.value).shape.numel();
  return trained;
}

/// Of what configurations of one sweep differ by.
std::size_t hash_of(const StepConfig& c) {
  std::uint64_t hash = 0;
  for (const std::int64_t part :
       {c.layout.tp, c.layout.cp, c.layout.ep, c.layout.pp, c.layout.pp_rank,
        static_cast<std::int64_t>(c.layout.pp_schedule), static_cast<std::int64_t>(c.memory.ac),
        c.memory.ac_arg, static_cast<std::int64_t>(c.memory.kernels), c.run.batch, c.run.grad_accum,
        static_cast<std::int64_t>(c.layout.shard)})
    hash = hash * 1099511628211U + static_cast<std::uint64_t>(part);
  return static_cast<std::size_t>(hash);  // 32 bits of it in a browser
}

}  // namespace

StepConfig simulated(const model::ModelSpec& model, StepConfig config) {
  if (model.kv_sharing && config.memory.ac == AcMode::full && config.memory.scope == AcScope::block)
    config.memory.scope = AcScope::submodule;
  return config;
}

RankSimulation simulate_rank(const model::ModelSpec& asked, const StepConfig& requested,
                             bool detail) {
  ir::count(ir::Work::plans);
  const std::optional<model::ModelSpec> sized = model::sized(asked, requested);
  const model::ModelSpec& model = sized ? *sized : asked;
  const StepConfig config = simulated(model, requested);
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  RankSimulation made;
  Solved solved = solve(model, config, device);
  const passes::StepProgram& step = solved.step;
  const passes::Schedule schedule = passes::make_schedule(step);
  if (config.adapters.used()) made.trained = trained_elements(step);
  made.budget = std::move(solved.budget);
  made.settled = std::move(solved.settled);
  made.memory = memory_profile(step, schedule, device, config, detail, made.assumptions);
  made.kernels =
      count(step, config.run.grad_accum, device.cuda && config.runtime.kind == Runtime::ac_trainer,
            config.runtime.torch);
  made.time = simulate::walk_time(step, device, simulate::run_of(config), config.run.grad_accum,
                                  config.runtime.cuda_graph);
  return made;
}

std::optional<StepConfig> shared_by(const model::ModelSpec& model, const StepConfig& config) {
  const auto is_plain = [](LossKind loss) {
    return loss == LossKind::ce || loss == LossKind::ce_compiled;
  };
  if (config.layout.pp == 1 || config.layout.pp_rank == Layout::highest_rank || config.megatron() ||
      config.memory.ac == AcMode::budget || !is_plain(config.memory.loss))
    return std::nullopt;
  const std::vector<passes::StageBlocks> stages = passes::stages_of_rank(model, config);
  if (std::any_of(stages.begin(), stages.end(), [](const auto& stage) { return stage.head; }))
    return std::nullopt;
  StepConfig shared = config;
  shared.memory.loss = LossKind::ce;
  return shared;
}

bool SharedRanks::Slot::claim() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(claimed_, true);
}

void SharedRanks::Slot::make(const std::function<RankSimulation()>& simulate) {
  std::optional<RankSimulation> result;
  std::exception_ptr failure;
  try {
    result = simulate();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    failure_ = failure;
  }
  made_.notify_all();
}

const RankSimulation& SharedRanks::Slot::get() {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return result_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  return *result_;
}

std::shared_ptr<SharedRanks::Slot> SharedRanks::slot(const model::ModelSpec& model,
                                                     const StepConfig& config) {
  std::optional<StepConfig> shared = shared_by(model, config);
  if (!shared) return nullptr;
  const std::size_t hash = hash_of(*shared);
  const std::lock_guard lock(mutex_);
  const auto [first, last] = known_.equal_range(hash);
  for (auto known = first; known != last; ++known)
    if (known->second.config == *shared) return known->second.slot;
  return known_.emplace(hash, Known{std::move(*shared), std::make_shared<Slot>()})->second.slot;
}

}  // namespace ac_advisor::advise
