#include "least_costs.hpp"

#include <algorithm>
#include <array>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/pipeline.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::advise {
namespace {

using ir::Phase;

/// One micro-batch on the ranks of a layer or of a sequence: no stages, and no shards but those
/// that a ring has, over its own ranks.
StepConfig reference_of(StepConfig c, AcMode ac) {
  Layout alone;
  alone.world = alone.tp = c.layout.tp;
  alone.sequence_parallel = c.layout.sequence_parallel;
  alone.loss_parallel = c.layout.loss_parallel;
  if (c.layout.cp > 1) {
    alone.world = alone.cp = c.layout.cp;
    alone.cp_method = c.layout.cp_method;
    alone.cp_rank = c.layout.cp_rank;
    alone.shard = c.layout.shard;
    alone.fsdp_unit = c.layout.fsdp_unit;
  }
  alone.node_size = c.layout.node_size;
  alone.network_gbps = c.layout.network_gbps;
  c.layout = alone;
  c.run.grad_accum = 1;
  if (c.memory.offload == Offload::parameters) c.memory.offload = Offload::none;  // of shards
  c.memory.ac = ac;
  c.memory.ac_arg = 0;
  // What FSDP2 gathers in another dtype is computed in that one.
  c.precision.param_dtype = c.precision.reduce_dtype = c.precision.compute_dtype;
  return c;
}

simulate::Device without_host(simulate::Device device) {
  device.forward_op_seconds = device.backward_op_seconds = device.fused_op_seconds = 0;
  device.region_seconds = device.saved_hook_seconds = device.gather_seconds = 0;
  device.step_seconds = device.graph_launch_seconds = 0;
  return device;
}

struct Reference {
  LeastCosts::Seconds seconds;  ///< but the embedding's
  std::int64_t saved = 0;       ///< of all blocks: there when the last forward op is done
};

std::int64_t saved_bytes(const passes::StepProgram& step) {
  const ir::Program& p = step.program;
  const passes::Schedule schedule = passes::make_schedule(step);
  std::vector<bool> seen(p.storages.size(), false);
  std::int64_t bytes = 0;
  const auto begin = std::find_if(p.ops.begin(), p.ops.end(),
                                  [](const ir::Op& op) { return op.phase == Phase::backward; });
  for (auto op = p.ops.begin(); op != begin; ++op)
    for (const ir::ValueId v : p.outputs(*op)) {
      const auto s = static_cast<std::size_t>(p.storage_of(v));
      if (seen[s] || op->module.block < 0 || p.storages[s].role != ir::Role::activation) continue;
      seen[s] = true;
      if (schedule.last_use[s] >= begin - p.ops.begin()) bytes += p.storages[s].bytes;
    }
  return bytes;
}

Reference simulate_blocks(model::ModelSpec model, std::int64_t blocks, const StepConfig& config,
                          const simulate::Device& device, const simulate::Run& run) {
  const auto cut = [&](auto& of_each_block) {
    if (!of_each_block.empty()) of_each_block.resize(static_cast<std::size_t>(blocks));
  };
  model.layers = blocks;
  cut(model.window);
  cut(model.unrotated_block);
  cut(model.sparse_block);
  cut(model.delta_block);
  const passes::StepProgram step = passes::build_step(model, config);
  const simulate::StepTime time = simulate::walk_time(step, device, run, 1);
  const auto phase = [&](Phase at) { return time.by_phase[static_cast<std::size_t>(at)]; };
  Reference found;
  found.saved = saved_bytes(step);
  found.seconds.forward = phase(Phase::forward) + phase(Phase::loss);
  found.seconds.backward = phase(Phase::backward) + phase(Phase::recompute);
  for (const ir::Op& op : step.program.ops) {
    if (op.module.leaf != ir::Module::embed) continue;
    const double seconds = simulate::op_seconds(step.program, op, device, run);
    (op.phase <= Phase::loss ? found.seconds.forward : found.seconds.backward) -= seconds;
  }
  return found;
}

LeastCosts costs_of(const model::ModelSpec& model, const StepConfig& reference,
                    const simulate::Device& device, const simulate::Run& run) {
  const Reference one = simulate_blocks(model, 1, reference, device, run),
                  two = simulate_blocks(model, 2, reference, device, run);
  LeastCosts costs;
  costs.block = {two.seconds.forward - one.seconds.forward,
                 two.seconds.backward - one.seconds.backward};
  costs.head = {std::max(0.0, one.seconds.forward - costs.block.forward),
                std::max(0.0, one.seconds.backward - costs.block.backward)};
  costs.saved = two.saved - one.saved;
  return costs;
}

/// Whether the reference's ops are ops of the configuration's step, too.
bool is_bounded(const model::ModelSpec& model, const StepConfig& c) {
  return c.runtime.kind == Runtime::pytorch && !c.megatron() && c.layout.ep == 1 &&
         (c.layout.cp == 1 || c.layout.tp * c.layout.pp == 1) && passes::blocks_are_alike(model) &&
         model.layers > 2 && !model.moe && !model.tower && model.graph == nullptr &&
         !model.kv_sharing && !c.adapters.used() && c.memory.offload == Offload::none &&
         c.memory.ac != AcMode::budget && c.memory.ac != AcMode::memory_budget &&
         c.runtime.cuda_graph == CudaGraph::off && !simulate::find_device(c.device.gpu).measured;
}

std::array<AcMode, 2> references_of(AcMode ac) {
  switch (ac) {
    case AcMode::full:
    case AcMode::selective:
      return {ac, ac};
    case AcMode::every:
      return {AcMode::none, AcMode::full};
    default:  // what else is recomputed takes its time
      return {AcMode::none, AcMode::none};
  }
}

}  // namespace

ReferenceSteps::ReferenceSteps(const model::ModelSpec& model, const std::vector<StepConfig>& list) {
  applies_ = std::all_of(list.begin(), list.end(),
                         [&](const StepConfig& c) { return is_bounded(model, c); });
  if (!applies_) return;
  for (const StepConfig& c : list)
    for (const AcMode ac : references_of(c.memory.ac)) {
      const StepConfig reference = reference_of(c, ac);
      if (find(c, ac) != nullptr || passes::find_exclusion(model, reference) != nullptr) continue;
      known_.emplace_back(
          reference, costs_of(model, reference, without_host(simulate::find_device(c.device.gpu)),
                              simulate::run_of(c)));
    }
}

const LeastCosts* ReferenceSteps::find(StepConfig config, AcMode ac) const {
  const StepConfig reference = reference_of(std::move(config), ac);
  for (const auto& [known, costs] : known_)
    if (known == reference) return &costs;
  return nullptr;
}

std::int64_t recomputed_blocks(const model::ModelSpec& model, const StepConfig& config,
                               std::int64_t blocks) {
  if (config.memory.ac != AcMode::every) return config.memory.ac == AcMode::full ? blocks : 0;
  return (blocks +
          (model::layer_forms(model, config).counts_from_one ? 0 : config.memory.ac_arg - 1)) /
         config.memory.ac_arg;
}

double seconds_at_least(const model::ModelSpec& model, const StepConfig& config,
                        const ReferenceSteps& references) {
  const auto [plain_ac, other_ac] = references_of(config.memory.ac);
  const LeastCosts *plain = references.find(config, plain_ac),
                   *other = references.find(config, other_ac);
  if (plain == nullptr || other == nullptr) return 0;
  using Seconds = LeastCosts::Seconds;
  std::vector<Seconds> stages;
  for (const passes::StageBlocks& stage : passes::pipeline_stages(model, config)) {
    const double recomputed = static_cast<double>(recomputed_blocks(model, config, stage.blocks())),
                 kept = static_cast<double>(stage.blocks()) - recomputed;
    Seconds s{kept * plain->block.forward + recomputed * other->block.forward,
              kept * plain->block.backward + recomputed * other->block.backward};
    if (stage.head) s = {s.forward + plain->head.forward, s.backward + plain->head.backward};
    stages.push_back(s);
  }
  const auto micro_batches = static_cast<double>(config.run.grad_accum);
  double least = 0, way = 0;  // way: of one micro-batch through the stages before, and back
  const bool whole = !splits_backwards(config.layout.pp_schedule);
  passes::PipelineRank rank = passes::pipeline_rank(config);
  for (rank.rank = 0; rank.rank < rank.ranks; ++rank.rank) {
    double own = 0;
    for (std::int64_t chunk = 0; chunk < rank.chunks; ++chunk) {
      const Seconds& s = stages[static_cast<std::size_t>(rank.stage(chunk))];
      own += s.forward + s.backward;
    }
    least = std::max(least, way + micro_batches * own);
    const Seconds& first = stages[static_cast<std::size_t>(rank.rank)];
    // The way back is of inputs alone where backwards are in two parts.
    way += first.forward + (whole ? first.backward : 0);
  }
  return least;
}

}  // namespace ac_advisor::advise
