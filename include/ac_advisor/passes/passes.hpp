#pragma once

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Refuses what cannot be combined (design, sections 8 and 10), with the reason. Planner and
/// trainer call the same function, so they say the same words. Throws UserError.
void validate(const model::ModelSpec& spec, const StepConfig& config);

/// The whole step of `config`, in the order of issue: every micro-batch's forward, loss, backward
/// with its recomputation, then the optimizer; with collectives where sharded. Runs all passes.
/// Throws UserError for what `validate` refuses and for sizes that overflow 64 bits.
[[nodiscard]] StepProgram build_step(const model::ModelSpec& spec, const StepConfig& config);

/// Replaces the chains that lowering marked, from op `first` on, by one fused op each.
/// `across_modules`: the residual addition may join the norm after it (not where each is a
/// checkpoint region of its own). `rope_in_place`: q and k are rotated where they lie (not where
/// selective checkpointing keeps them as they were).
void fuse(StepProgram& step, ir::OpId first, bool across_modules, bool rope_in_place);

/// Appends the backward of the forward ops [first, end) in the order of PyTorch's autograd engine.
/// `under_dispatch_mode`: as in StepConfig. `keep_gradients`: a later
/// micro-batch adds to the parameter's gradient (false under fsdp2, where shards are summed).
void differentiate(StepProgram& step, ir::OpId first, bool under_dispatch_mode,
                   bool keep_gradients);

}  // namespace ac_advisor::passes
