#pragma once

#include <cstdint>

#include "ac_advisor/ir/module_path.hpp"

namespace ac_advisor::passes {

/// The kinds of module that a checkpoint is put around. `--ac attention` is the first; the others
/// have no word on the command line: `explain` plans each to find what it keeps and costs. It
/// stands in `ac_arg` beside AcMode::attention.
enum class ModuleKind : std::uint8_t { attention_core, norm, projection, mlp, embedding, loss };
inline constexpr std::size_t module_kind_count = 6;

/// The module of `kind` that ops of `leaf` are part of, which is one region; root: none.
[[nodiscard]] ir::Module module_of(ModuleKind kind, ir::Module leaf);

}  // namespace ac_advisor::passes
