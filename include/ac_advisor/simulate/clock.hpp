#pragma once

#include <array>
#include <vector>

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::simulate {

/// What the clock knows of a run beside its program and its device.
struct Run {
  std::int64_t world = 1;
  std::int64_t tp = 1;            ///< ranks that share each layer
  std::int64_t cp = 1;            ///< ranks that share each sequence
  std::int64_t expert_ranks = 1;  ///< ranks that share each layer's experts
  std::int64_t shards = 0;        ///< ranks of an all-gather and a reduce-scatter; 0: all
  std::int64_t node_size = 0;     ///< 0: the device's
  double network = 0;             ///< bytes/s of one rank to other nodes; 0: the device's
  Attention attention = Attention::automatic;

  Run() = default;
  Run(std::int64_t ranks) : world(ranks) {}  // NOLINT(google-explicit-constructor)
};
[[nodiscard]] Run run_of(const StepConfig& config);

/// Seconds of one optimizer step on one rank, op by op from the device's measurements where it has
/// them, else estimates: a roofline with efficiencies from the device file.
struct StepTime {
  double step = 0;
  std::array<double, ir::phase_count> by_phase{};  ///< recompute apart from backward
  double launch_bound = 0;           ///< device idle because the host had not issued yet
  double communication_exposed = 0;  ///< device idle because a collective, or a copy between
                                     ///< device and host, was not done
  double contention = 0;  ///< what kernels took longer because a collective ran beside them
  double unmeasured = 0;  ///< by ops that the device has no measurements of
  double at_peak = 0;     ///< what its model FLOPs take at the device's peak: MFU's numerator
  std::vector<double> by_stretch;  ///< of passes::stretches_of, all of its runs; no optimizer's
};

/// One kernel's (or op's) seconds on the device, launch not included (but on a measured CPU).
[[nodiscard]] double op_seconds(const ir::Program& program, const ir::Op& op, const Device& device,
                                const Run& run);

/// Walks the schedule with two clocks: the host's, which issues ops one after another, and the
/// device's, whose compute, communication and copy streams run them as soon as they are issued.
/// `graph`: ops in a captured graph are issued by its launch. `grad_accum`: how often the second
/// micro-batch of the program stands for.
[[nodiscard]] StepTime walk_time(const passes::StepProgram& step, const Device& device,
                                 const Run& run, std::int64_t grad_accum,
                                 CudaGraph graph = CudaGraph::off);

}  // namespace ac_advisor::simulate
