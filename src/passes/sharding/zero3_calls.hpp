#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::passes {

/// A hook of a module of transformers: before it runs, forward, in a recomputation or in backward,
/// or after.
struct ModuleHook {
  std::size_t before = 0;  ///< which op, by its index; the number of ops: after all of them
  ir::ModulePath module;
  bool begins = true;
  bool forward = true;
};

/// transformers' models (LlamaForCausalLM, LlamaModel), which the ops' paths do not name.
inline constexpr ir::ModulePath outer_model{-1, ir::Module::root};
inline constexpr ir::ModulePath inner_model{-1, ir::Module::block};

/// The hooks that a micro-batch's ops come with, in order: those of modules without parameters,
/// too. A module that is left by an exception (a checkpoint's early stop) has none after it, nor in
/// backward one whose inputs have no gradient, or which has no parameters. `reentrant`: a block
/// waits in backward while its recomputation and the backward of what is in it run to their ends.
/// `loss_in_model`: the outer model computes it itself, from its head's weight.
[[nodiscard]] std::vector<ModuleHook> module_hooks(std::span<const ir::Op> ops,
                                                   bool reentrant = false,
                                                   bool loss_in_model = false);

}  // namespace ac_advisor::passes
