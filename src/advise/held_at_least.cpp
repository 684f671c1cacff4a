#include "held_at_least.hpp"

#include <algorithm>

#include "ac_advisor/passes/pipeline.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"

namespace ac_advisor::advise {
namespace {

using passes::PipelineRank;
using passes::StageBlocks;

/// Of `whole` elements that one rank of a layer computes with: stored, moments, at work. FSDP
/// reduces the gradients of one of `in_turn` parts before the next has any.
std::int64_t state_bytes(std::int64_t whole, std::int64_t in_turn, const StepConfig& c) {
  const std::int64_t stored = size_of(c.precision.param_dtype),
                     computed = size_of(c.precision.compute_dtype);
  const std::int64_t moments = c.optimizer.kind == Optimizer::adamw ? 2 : 0;
  if (!c.layout.fsdp()) return whole * (stored + moments * stored + computed);
  const std::int64_t gradient = std::max(computed, size_of(c.precision.reduce_dtype));
  return whole / passes::fsdp_shards(c) * (1 + moments) * stored + whole * computed +
         whole / in_turn * gradient;
}

/// Parts of the rank whose gradients are not there at once: interleaved stages, each of which has
/// all of its backwards in one round.
std::int64_t parts_in_turn(const PipelineRank& rank) {
  const bool one_round = rank.schedule == PipelineSchedule::interleaved && rank.rounds() < 2;
  return one_round ? rank.chunks : 1;
}

/// Of one stage of the rank, forwards that wait for their backward while all gradients are there:
/// of interleaved stages from the second round of backwards on. None is counted on where backwards
/// are in two parts.
std::int64_t in_flight(const PipelineRank& rank) {
  if (splits_backwards(rank.schedule)) return 0;
  const std::int64_t most = passes::most_in_flight(rank);
  if (rank.schedule != PipelineSchedule::interleaved) return std::min(most, rank.micro_batches - 1);
  return rank.rounds() < 3 ? 0 : most / rank.chunks;
}

bool saves_each_input(AcMode ac) {
  return ac == AcMode::none || ac == AcMode::full || ac == AcMode::selective;
}

/// What a block saves of one micro-batch, kept and recomputed; nothing where it is not known.
struct SavedByBlock {
  std::int64_t kept = 0, recomputed = 0;
};

SavedByBlock saved_by_block(const StepConfig& config, const ReferenceSteps* references) {
  if (references == nullptr) return {};
  const bool every = config.memory.ac == AcMode::every;
  const LeastCosts *kept = references->find(config, every ? AcMode::none : config.memory.ac),
                   *less = references->find(config, every ? AcMode::full : config.memory.ac);
  if (kept == nullptr || less == nullptr) return {};
  return {kept->saved, less->saved};
}

/// What one micro-batch's forward of so many blocks leaves for its backward.
std::int64_t saved_bytes(const model::ModelSpec& model, const StepConfig& config,
                         std::int64_t blocks, std::int64_t hidden, const SavedByBlock& block) {
  const std::int64_t inputs = saves_each_input(config.memory.ac) ? blocks * hidden : 0;
  const std::int64_t recomputed = recomputed_blocks(model, config, blocks);
  return std::max(inputs, (blocks - recomputed) * block.kept + recomputed * block.recomputed);
}

/// Without stages: shards and their moments, and beside them what forward leaves, with the
/// gradients of micro-batches before; in the optimizer's step all gradients.
std::int64_t held_without_stages(std::int64_t parameters, std::int64_t saved, const StepConfig& c) {
  if (!c.layout.fsdp()) return 0;
  if (c.memory.offload == Offload::parameters) return saved;
  const std::int64_t stored =
      parameters / c.layout.tp / passes::fsdp_shards(c) * size_of(c.precision.param_dtype);
  const std::int64_t moments = c.optimizer.kind == Optimizer::adamw ? 2 : 0;
  const std::int64_t gradients = c.run.grad_accum > 1 ? stored : 0;
  return stored * (1 + moments) + std::max(stored, saved + gradients);
}

/// Elements of all routed experts.
std::int64_t routed_elements(const model::ModelSpec& model) {
  if (!model.moe) return 0;
  const auto sparse = model.sparse_block.empty()
                          ? model.layers
                          : std::count(model.sparse_block.begin(), model.sparse_block.end(), true);
  const std::int64_t matrices = model.plain_mlp ? 2 : 3;
  return sparse * model.moe->experts * matrices * model.hidden * model.moe->intermediate;
}

/// Megatron-core's stages hold their parameters and main gradients from the first backward on, and
/// one of them no less than the mean.
std::int64_t held_by_megatron(const model::ModelSpec& model, const StepConfig& c) {
  const std::int64_t routed = routed_elements(model), ends = 2 * model.vocab * model.hidden;
  const std::int64_t others =
      std::max<std::int64_t>(0, model::parameter_count(model) - routed - ends);
  const std::int64_t bytes = size_of(c.precision.param_dtype) + size_of(c.precision.reduce_dtype);
  return (others / c.layout.tp + routed / (c.layout.ep * c.layout.expert_tp())) / c.layout.pp *
         bytes;
}

}  // namespace

std::int64_t held_at_least(const model::ModelSpec& model, const StepConfig& config,
                           const ReferenceSteps* references) {
  const Layout& layout = config.layout;
  if (config.megatron()) return config.adapters.used() ? 0 : held_by_megatron(model, config);
  // A frozen base has neither gradients nor moments.
  if (!passes::blocks_are_alike(model) || config.adapters.used()) return 0;
  const std::int64_t table = model.vocab * model.hidden;
  const std::int64_t ends = 2 * table + 2 * model.hidden + model.vocab;  // norm, biases
  const std::int64_t block = (model::parameter_count(model) - ends) / model.layers;
  const std::int64_t hidden = config.rows() * (config.local_seq() / layout.tp) * model.hidden *
                              size_of(config.precision.compute_dtype);
  const SavedByBlock saves = saved_by_block(config, references);
  if (layout.pp == 1)
    return held_without_stages(model.layers * block + 2 * table,
                               saved_bytes(model, config, model.layers, hidden, saves), config);
  StepConfig own = config;
  std::int64_t most = 0;
  for (own.layout.pp_rank = 0; own.layout.pp_rank < layout.pp; ++own.layout.pp_rank) {
    std::int64_t parameters = 0, blocks = 0, receives = 0;
    for (const StageBlocks& stage : passes::stages_of_rank(model, own)) {
      blocks += stage.blocks();
      receives += (stage.embedding ? 0 : 1) + (stage.head ? 0 : 1);
      parameters +=
          stage.blocks() * block + (stage.embedding ? table : 0) + (stage.head ? table : 0);
    }
    const PipelineRank rank = passes::pipeline_rank(own);
    const std::int64_t saved =
        in_flight(rank) * saved_bytes(model, config, blocks, hidden, saves) / rank.chunks;
    most = std::max(most, state_bytes(parameters / layout.tp, parts_in_turn(rank), config) +
                              receives * rank.micro_batches * hidden + saved);
  }
  return most;
}

}  // namespace ac_advisor::advise
