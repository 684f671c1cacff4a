#pragma once

#include <span>
#include <string>

#include "ac_advisor/oom/error.hpp"

namespace ac_advisor::oom {

/// What kind of tensor a frame asks for.
enum class Role : std::uint8_t {
  unknown,
  logits,      ///< rows of the vocabulary: logits, their softmax, log-probabilities, entropy
  scores,      ///< of unfused attention: a number for each two tokens and head
  mask,        ///< a number for each two tokens
  activation,  ///< of a layer
  kv_cache,    ///< of generation
  parameter,   ///< as it is loaded, moved or cast
  gathered,    ///< a unit's or a layer's parameters, from all ranks
  gradient,    ///< as it is reduced, or flattened
  state,       ///< of the optimizer
  temporary    ///< of the optimizer's step
};

/// What the traceback says of the request; words are empty where it says nothing.
struct Marks {
  Role role = Role::unknown;
  std::string words;  ///< "fp32 logits for the entropy"
  std::string phase;  ///< "forward", "loss", "backward", "optimizer", "generation", "set-up", …
  std::string where;  ///< the frame that says it: "verl/utils/torch_functional.py:148"
  std::string model_type;    ///< as transformers has it, by a file of its: "qwen2"
  std::int64_t width = 0;    ///< elements of a row, where the source says it
  std::int64_t element = 0;  ///< bytes of an element, likewise
};

[[nodiscard]] Marks marks_of(std::span<const Frame> frames);

}  // namespace ac_advisor::oom
