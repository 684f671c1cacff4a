#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/trace/trace.hpp"

/// What checkpointing costs, and why: two traces of the same program, without and with it.
namespace ac_advisor::trace {

// Where a finding is flagged.
inline constexpr double launch_ratio_limit = 1.5;
inline constexpr double bandwidth_limit = 0.8;
inline constexpr double fused_share_limit = 0.9;

/// Of one step, on the device's clock, where the trace tells its steps; else of the whole trace.
struct Side {
  std::string origin, source, device;
  std::int64_t processes = 0;  ///< in the file; the busiest one is told of
  Window window{};
  std::int64_t steps = 1;  ///< that the totals were divided by
  bool steps_known = false;
  double seconds = 0;
  double busy_seconds = 0, idle_seconds = 0;
  std::array<double, phase_names.size()> kernels{};
  std::array<double, phase_names.size()> launches{};
  std::array<double, phase_names.size()> kernel_seconds{};
  std::array<double, phase_names.size()> graphs{};  ///< recorded as a whole: kernels not told
  MemoryPeaks memory;
};

struct Finding {
  enum class Verdict : std::uint8_t { fine, flagged, not_measured };
  std::string name;
  Verdict verdict = Verdict::not_measured;
  std::optional<double> value;
  double limit = 0;
  bool flagged_below = false;  ///< or else above the limit
  std::string unit;            ///< "x", "%", "us"; value and limit are in it
  bool estimate = false;
  std::string how;     ///< what was compared, or why it was not measured
  std::string advice;  ///< what to do, where it is flagged or not measured
};

/// A part of the difference of the two step times.
struct OverheadPart {
  std::string name;
  double seconds = 0;
  std::string how;
  std::string advice;  ///< empty where there is nothing to do about it
};

/// Where recomputation spends its time: a kind of module, and the op of PyTorch.
struct Hotspot {
  std::string module, op;
  double kernels = 0, seconds = 0;  ///< a step
};

/// What `ac-advisor plan` predicts of B's step, and, where A's was planned too, of their
/// difference.
struct Prediction {
  std::string origin;
  double recompute_bytes = 0;              ///< that the recomputation of one step moves
  double recompute_seconds = 0;            ///< 0: not predicted
  double step_seconds = 0;                 ///< of B
  std::optional<double> overhead_seconds;  ///< B's step minus A's; empty: A was not planned
  std::string basis = "estimated";         ///< "estimated", "calibrated", "measured"
};

/// A figure of the two traces, and what was predicted of it. Seconds a step.
struct Compared {
  std::string name;
  double measured = 0, predicted = 0;
};

struct Diagnosis {
  Side a, b;
  std::vector<Finding> findings;
  double overhead_seconds = 0;         ///< B's step minus A's
  std::vector<OverheadPart> overhead;  ///< sums to `overhead_seconds`
  std::vector<Hotspot> hotspots;       ///< of B's recomputation, most time first
  std::vector<Compared> compared;      ///< with the prediction; empty where none was given
  std::string prediction;              ///< where it came from
  std::vector<std::string> notes;
};

/// `a`: without checkpointing, `b`: with it. Throws UserError where a trace has no kernels.
[[nodiscard]] Diagnosis diagnose(const TraceFile& a, const TraceFile& b,
                                 const std::optional<Prediction>& predicted = {});

/// What a trace says of one step.
[[nodiscard]] Side summarize(const TraceFile& file);

/// The name of data/devices/ for what the driver calls the device ("NVIDIA H100 80GB HBM3").
[[nodiscard]] std::optional<std::string> known_device(const std::string& driver_name);

}  // namespace ac_advisor::trace
