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

struct Diagnosis {
  Side a, b;
  std::vector<Finding> findings;
  double overhead_seconds = 0;         ///< B's step minus A's
  std::vector<OverheadPart> overhead;  ///< sums to `overhead_seconds`
  std::vector<std::string> notes;
};

/// Bytes that the recomputation of one step moves, as `ac-advisor plan` predicts them.
struct PredictedTraffic {
  std::string origin;
  double recompute_bytes = 0;
};

/// `a`: without checkpointing, `b`: with it. Throws UserError where a trace has no kernels.
[[nodiscard]] Diagnosis diagnose(const TraceFile& a, const TraceFile& b,
                                 const std::optional<PredictedTraffic>& predicted = {});

/// What a trace says of one step.
[[nodiscard]] Side summarize(const TraceFile& file);

/// The name of data/devices/ for what the driver calls the device ("NVIDIA H100 80GB HBM3").
[[nodiscard]] std::optional<std::string> known_device(const std::string& driver_name);

}  // namespace ac_advisor::trace
