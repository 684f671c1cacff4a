#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// What a partition has of one parameter.
struct ZeroPiece {
  std::size_t parameter = 0;
  std::int64_t elements = 0;    ///< of it in the partition
  std::int64_t whole = 0;       ///< all of it: so much of its gradient is kept
  std::int64_t kept_start = 0;  ///< where such gradients would stand one after the other
};

/// One rank's part of all parameters, one after the other in the order of `parameters()`, as
/// DeepSpeed's ZeRO 1 and 2 cut them (v0.19.8, stage_1_and_2.py): padded to a multiple of twice the
/// ranks, then into equal parts.
struct ZeroPartition {
  std::int64_t rank = 0;
  std::int64_t elements = 0;       ///< of each rank's partition, padding included
  std::int64_t kept_elements = 0;  ///< of whole parameters that reach into it
  std::vector<ZeroPiece> pieces;
};

/// Elements of a parameter that one rank owns.
struct ZeroRun {
  std::int64_t rank = 0, elements = 0;
};

/// That of the rank which keeps the most gradients: the planned one.
[[nodiscard]] ZeroPartition zero_partition(const StepProgram& step, std::int64_t world);
/// A parameter by its owners, in order; `partition` elements are a rank's.
[[nodiscard]] std::vector<ZeroRun> runs_of(const StepProgram& step, std::size_t parameter,
                                           std::int64_t partition);

}  // namespace ac_advisor::passes
