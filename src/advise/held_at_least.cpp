#include "held_at_least.hpp"

#include <algorithm>

#include "ac_advisor/passes/pipeline.hpp"
#include "passes/fsdp2_buffers.hpp"

namespace ac_advisor::advise {
namespace {

using passes::PipelineRank;
using passes::StageBlocks;

/// Of `whole` elements that one rank of a layer computes with: stored, moments, at work.
std::int64_t state_bytes(std::int64_t whole, const StepConfig& c) {
  const std::int64_t stored = size_of(c.precision.param_dtype),
                     computed = size_of(c.precision.compute_dtype);
  const std::int64_t moments = c.optimizer.kind == Optimizer::adamw ? 2 : 0;
  if (!c.layout.gathers()) return whole * (stored + moments * stored + computed);
  const std::int64_t gradient = std::max(computed, size_of(c.precision.reduce_dtype));
  return whole / passes::fsdp_shards(c) * (1 + moments) * stored + whole * (computed + gradient);
}

/// Of one stage of the rank, forwards that wait for their backward while all gradients are there:
/// of interleaved stages from the second round of backwards on.
std::int64_t in_flight(const PipelineRank& rank) {
  const std::int64_t most = passes::most_in_flight(rank);
  if (rank.schedule != PipelineSchedule::interleaved) return std::min(most, rank.micro_batches - 1);
  return rank.rounds() < 3 ? 0 : most / rank.chunks;
}

bool saves_each_input(AcMode ac) {
  return ac == AcMode::none || ac == AcMode::full || ac == AcMode::selective;
}

}  // namespace

std::int64_t held_at_least(const model::ModelSpec& model, const StepConfig& config) {
  const Layout& layout = config.layout;
  if (!passes::blocks_are_alike(model)) return 0;
  const std::int64_t table = model.vocab * model.hidden;
  const std::int64_t ends = 2 * table + 2 * model.hidden + model.vocab;  // norm, biases
  const std::int64_t block = (model::parameter_count(model) - ends) / model.layers;
  const std::int64_t hidden = config.run.batch * (config.local_seq() / layout.tp) * model.hidden *
                              size_of(config.precision.compute_dtype);
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
        saves_each_input(config.memory.ac) ? in_flight(rank) * blocks / rank.chunks : 0;
    most = std::max(most, state_bytes(parameters / layout.tp, config) +
                              (receives * rank.micro_batches + saved) * hidden);
  }
  return most;
}

}  // namespace ac_advisor::advise
