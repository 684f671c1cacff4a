#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trace/json_scanner.hpp"

namespace ac_advisor::trace {

/// What of one event of a Kineto trace is looked at. Times in nanoseconds.
struct KinetoEvent {
  std::string phase, category, name, thread_name;
  /// Texts ("stream 7", "GPU 0") have numbers of their own, below any that a system gives.
  std::optional<std::int64_t> pid, tid;
  std::string pid_text;  ///< where it is no number
  std::optional<std::int64_t> start, duration;
  std::optional<std::int64_t> correlation, device, bytes, graph, sequence, forward_thread;
  std::optional<std::int64_t> allocated, reserved, device_type;

  void clear();
};

/// Reads one event: the scanner has just given its `object`.
void read_event(JsonScanner& json, KinetoEvent& event);

/// A JSON number in the units of `decimals` places after its point, exactly: microseconds since
/// 1970 with a fraction do not fit a double. Empty: no number, or beyond any clock.
[[nodiscard]] std::optional<std::int64_t> scaled(std::string_view number, std::size_t decimals);

}  // namespace ac_advisor::trace
