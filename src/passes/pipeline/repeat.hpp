#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Writes micro-batches of a pipeline without the passes. Once one of them has left the step as the
/// one before it did, but for numbers that moved on by as much as the program grew, or to the next
/// of what stages receive, the passes would go on so: a pass sees nothing of a step but what it
/// holds. build_step_logged writes them all by the passes.
class Repeat {
 public:
  /// Not where backwards are in two parts: the schedule says of each what its weights wait for.
  [[nodiscard]] static bool applies(const StepConfig& config);

  /// After each micro-batch, of all stages of the rank.
  void written(const StepProgram& step);
  /// Whether the latest is as the one before it.
  [[nodiscard]] bool is_steady(const StepProgram& step);
  /// Writes the next one, of `left` that are not written yet.
  void write_next(StepProgram& step, std::int64_t left);

 private:
  /// How long the lists are that micro-batches add to.
  struct Extent {
    std::int32_t ops = 0, values = 0, storages = 0, operands = 0, compiled = 0, bodies = 0,
                 regions = 0, begins = 0;
    bool operator==(const Extent&) const = default;
  };
  friend Extent operator-(const Extent& a, const Extent& b) {
    return {a.ops - b.ops,           a.values - b.values,     a.storages - b.storages,
            a.operands - b.operands, a.compiled - b.compiled, a.bodies - b.bodies,
            a.regions - b.regions,   a.begins - b.begins};
  }
  /// What a micro-batch has left.
  struct State {
    Extent extent;
    std::vector<ir::ValueId> ids;                 ///< that stand in the step by themselves
    std::vector<std::vector<ir::ValueId>> lists;  ///< of such
  };

  [[nodiscard]] bool moves(ir::ValueId before, ir::ValueId now) const;
  [[nodiscard]] bool moves(const std::vector<ir::ValueId>& before,
                           const std::vector<ir::ValueId>& now) const;
  [[nodiscard]] bool moves_storage(const ir::Program& p, ir::StorageId before,
                                   ir::StorageId now) const;
  [[nodiscard]] bool moves(const ir::Program& p, const ir::Value& before,
                           const ir::Value& now) const;
  [[nodiscard]] bool moves(const ir::Op& before, const ir::Op& now) const;
  [[nodiscard]] bool program_moves(const ir::Program& p) const;
  [[nodiscard]] bool ends_move(const StepProgram& step) const;
  void find_received(const StepProgram& step);
  void write_program(ir::Program& p, std::int64_t left) const;

  std::array<State, 3> last_;  ///< the latest is the last
  std::size_t written_ = 0;
  bool steady_ = false;
  Extent grown_;  ///< by the latest
  /// What stages receive of the micro-batch before and of this one.
  std::vector<std::pair<ir::ValueId, ir::ValueId>> received_;
};

}  // namespace ac_advisor::passes
