#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// One stage of a pipeline: blocks [first, end) of the model. The first has the embedding, the last
/// the final norm, the LM head and the loss. Without a pipeline the model is one stage.
struct StageBlocks {
  std::int64_t first = 0, end = 0;
  bool embedding = true, head = true;

  [[nodiscard]] std::int64_t blocks() const { return end - first; }
  bool operator==(const StageBlocks&) const = default;
};

/// All stages of the model, in order: --pp-layers, or as TorchTitan 0.2.2 splits it
/// (distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part): the embedding and the head
/// count as a layer each, and the first stages have one more where the layers do not come out
/// even; Megatron-core's have the same number each. Empty: a stage would be left without a layer,
/// or they do not come out even.
[[nodiscard]] std::vector<StageBlocks> pipeline_stages(const model::ModelSpec& spec,
                                                       const StepConfig& config);
/// Those of the configuration's rank (of the first, where none is chosen), as PipelineRank::stage
/// numbers them.
[[nodiscard]] std::vector<StageBlocks> stages_of_rank(const model::ModelSpec& spec,
                                                      const StepConfig& config);

/// Whether all blocks of the model are, so that one stage's stand for as many of another.
[[nodiscard]] bool blocks_are_alike(const model::ModelSpec& spec);

/// What one rank of a pipeline is, and how many micro-batches it runs.
struct PipelineRank {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int64_t ranks = 1, rank = 0;
  std::int64_t chunks = 1;  ///< stages a rank has
  std::int64_t micro_batches = 1;
  bool written_whole = false;  ///< no micro-batch stands for another: the trainer runs them all

  /// rank, rank + ranks, …; of a V rank and, come back, the one as far from the last.
  [[nodiscard]] std::int64_t stage(std::int64_t chunk) const {
    const bool back = is_v_shaped(schedule) && chunk == 1;
    return back ? stages() - 1 - rank : chunk * ranks + rank;
  }
  [[nodiscard]] std::int64_t stages() const { return chunks * ranks; }
  /// Whose stage it is, and which of that rank's.
  [[nodiscard]] std::int64_t rank_of(std::int64_t stage) const {
    const bool back = is_v_shaped(schedule) && stage >= ranks;
    return back ? stages() - 1 - stage : stage % ranks;
  }
  [[nodiscard]] std::int64_t chunk_of(std::int64_t stage) const { return stage / ranks; }
  /// The stage before, or after, this rank's is its own, too: what one makes is handed to the
  /// other.
  [[nodiscard]] bool before_is_own(std::int64_t chunk) const {
    return stage(chunk) > 0 && rank_of(stage(chunk) - 1) == rank;
  }
  [[nodiscard]] bool after_is_own(std::int64_t chunk) const {
    return stage(chunk) + 1 < stages() && rank_of(stage(chunk) + 1) == rank;
  }
  /// Of ScheduleInterleaved1F1B and ScheduleInterleavedZeroBubble, each of as many micro-batches.
  [[nodiscard]] std::int64_t rounds() const {
    return std::max<std::int64_t>(1, micro_batches / ranks);
  }
};
[[nodiscard]] PipelineRank pipeline_rank(const StepConfig& config);

/// A tensor between stages, of one micro-batch of one of the rank's stages.
struct Message {
  enum class What : std::uint8_t { input, output, output_gradient, input_gradient };
  What what{};
  std::int64_t chunk = 0, micro = 0;
  bool operator==(const Message&) const = default;
};

/// One entry of a rank's schedule.
struct PipelineAction {
  enum class Kind : std::uint8_t {
    forward,
    backward,
    input_backward,   ///< the part of a backward that the stage before waits for
    weight_backward,  ///< and the rest of it
    exchange,         ///< `messages` are sent and received by one batch_isend_irecv
    let_go,           ///< the last reference that the schedule has to `messages` goes
    reduce  ///< a stage's gradients, over the ranks that it is sharded on, and by their number
  };
  Kind kind{};
  std::int64_t chunk = 0, micro = 0;
  std::vector<Message> messages;  ///< of a forward: what its output takes the place of
  std::int64_t runs = 1;          ///< times in a step; above 1 of one period of the steady state
};

/// What a rank does in a step, in order, as torch.distributed.pipelining does it (PyTorch v2.11,
/// schedules.py).
[[nodiscard]] std::vector<PipelineAction> pipeline_actions(const PipelineRank& rank);

/// The same with as few micro-batches as tell all of it: those of one period of the steady state
/// stand for all of its periods.
struct WrittenSchedule {
  std::vector<PipelineAction> actions;
  std::int64_t micro_batches = 1;
  std::int64_t copies = 0;  ///< gpipe: micro-batches in flight beside the written ones

  /// Whether the backward of this micro-batch is in two parts.
  [[nodiscard]] bool splits(std::int64_t chunk, std::int64_t micro) const;
  /// The micro-batch whose backward for inputs is the stage's first between the weights' part of
  /// this one and the next weights' part (or whole backward); none: there is none.
  [[nodiscard]] std::optional<std::int64_t> input_backward_after(std::int64_t chunk,
                                                                 std::int64_t micro) const;
};
[[nodiscard]] WrittenSchedule written_schedule(const PipelineRank& rank);

/// Most forwards that wait for their backward on this rank, over its stages.
[[nodiscard]] std::int64_t most_in_flight(const PipelineRank& rank);

}  // namespace ac_advisor::passes
