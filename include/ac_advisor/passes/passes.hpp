#pragma once

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Refuses what the table of exclusions (exclusion.hpp) refuses, with the reason and the way out.
/// Planner and trainer call the same function, so they say the same words. Throws UserError.
void validate(const model::ModelSpec& spec, const StepConfig& config);

/// The whole step of `config`, in the order of issue: every micro-batch's forward, loss, backward
/// with its recomputation, then the optimizer; with collectives where sharded. Runs the passes of
/// pass.hpp. Throws UserError for what `validate` refuses and for sizes that overflow 64 bits.
[[nodiscard]] StepProgram build_step(const model::ModelSpec& spec, const StepConfig& config);

/// Rows of the vocabulary as Megatron-LM pads it: to a multiple of 128 times the ranks that share
/// it (training/tokenizer/tokenizer.py, make_vocab_size_divisible_by).
[[nodiscard]] std::int64_t megatron_vocabulary(std::int64_t vocab, std::int64_t tp);

}  // namespace ac_advisor::passes
