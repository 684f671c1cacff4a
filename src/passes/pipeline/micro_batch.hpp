#pragma once

#include <array>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// What a pipeline's ranks are given of all micro-batches, and a micro-batch has its rows of.
template <typename Model>
[[nodiscard]] auto of_micro_batch(Model& m) {
  return std::array{&m.ids, &m.labels, &m.position_ids, &m.cu_seqlens_q, &m.cu_seqlens_k};
}

}  // namespace ac_advisor::passes
