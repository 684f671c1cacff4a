#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Elements of a parameter that one rank owns.
struct ZeroRun {
  std::int64_t rank = 0, elements = 0;
};

/// What the planned rank's partition has of one parameter.
struct ZeroPiece {
  std::size_t parameter = 0;
  std::int64_t elements = 0;    ///< of it in the partition
  std::int64_t whole = 0;       ///< all of it: so much of its gradient is kept
  std::int64_t kept_start = 0;  ///< where such gradients would stand one after the other
};

/// All parameters that are trained, one after the other in the order of `parameters()`, as
/// DeepSpeed's ZeRO 1 and 2 cut them (v0.19.8, stage_1_and_2.py): padded to a multiple of twice the
/// ranks, then into equal parts.
class ZeroPartition {
 public:
  ZeroPartition(const StepProgram& step, std::int64_t world);

  /// Of each rank's partition, padding included.
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  /// The planned rank: the one that keeps the most gradients.
  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] const std::vector<ZeroPiece>& pieces() const { return pieces_; }
  /// Of whole parameters that reach into it, its padding included.
  [[nodiscard]] std::int64_t kept_elements() const { return kept_elements_; }
  /// A parameter by its owners, in order.
  [[nodiscard]] std::vector<ZeroRun> runs(std::size_t parameter) const;

 private:
  std::vector<std::int64_t> starts_;  ///< of each parameter, then the end of all
  std::int64_t elements_ = 0, rank_ = 0, kept_elements_ = 0;
  std::vector<ZeroPiece> pieces_;
};

}  // namespace ac_advisor::passes
