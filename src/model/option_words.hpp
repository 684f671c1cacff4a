#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ac_advisor::options {

/// An option of a training tool, and what it is here.
struct Elsewhere {
  std::string_view there;        ///< "--gradient-checkpointing"
  std::string_view here;         ///< "--ac"; empty: none alone, see `way_out`
  std::string_view value = {};   ///< "full": it takes none there, or true and false
  std::string_view off = {};     ///< "none": its value where it is false there; empty: none says so
  std::string_view before = {};  ///< of a value: "zero" makes zero3 of --zero 3
  std::string_view way_out = {};
};

/// Of transformers, accelerate, TRL, DeepSpeed, Megatron-LM, TorchTitan and their like, in dashes.
[[nodiscard]] std::span<const Elsewhere> elsewhere();
/// Null: no tool's that is known. Underscores are dashes.
[[nodiscard]] const Elsewhere* find_elsewhere(std::string_view name);
/// "--per-device-batch" of "--per_device_batch".
[[nodiscard]] std::string with_dashes(std::string_view name);

}  // namespace ac_advisor::options
