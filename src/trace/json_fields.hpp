#pragma once

#include <cstdint>
#include <optional>

#include "ac_advisor/trace/trace.hpp"

/// The names that a trace's figures have in its JSON. Times are integers in nanoseconds, sizes in
/// bytes.
namespace ac_advisor::trace {

struct WorkField {
  const char* key;
  std::int64_t Work::*member;
};
constexpr WorkField work_fields[] = {
    {"launches", &Work::launches},
    {"kernels", &Work::kernels},
    {"kernel_ns", &Work::kernel_ns},
    {"captured_kernels", &Work::captured_kernels},
    {"captured_ns", &Work::captured_ns},
    {"copies", &Work::copies},
    {"copy_ns", &Work::copy_ns},
    {"copy_bytes", &Work::copy_bytes},
    {"memsets", &Work::memsets},
    {"memset_ns", &Work::memset_ns},
    {"memset_bytes", &Work::memset_bytes},
    {"busy_ns", &Work::busy_ns},
    {"idle_ns", &Work::idle_ns},
    {"long_gaps", &Work::long_gaps},
    {"long_gap_ns", &Work::long_gap_ns},
    {"longest_gap_ns", &Work::longest_gap_ns},
    {"graphs", &Work::graphs},
    {"idle_host_ns", &Work::idle_host_ns},
    {"dispatches", &Work::dispatches},
    {"idle_kernel_ns", &Work::idle_kernel_ns},
    {"idle_other_ns", &Work::idle_other_ns},
};

struct StepField {
  const char* key;
  std::int64_t Steps::*member;
};
constexpr StepField step_fields[] = {
    {"first", &Steps::first},         {"first_host_ns", &Steps::first_host_ns},
    {"later", &Steps::later},         {"later_host_ns", &Steps::later_host_ns},
    {"optimizer", &Steps::optimizer},
};

struct AttributionField {
  const char* key;
  std::int64_t Attribution::*member;
};
constexpr AttributionField attribution_fields[] = {
    {"own_range", &Attribution::own_range},
    {"range_of_main_thread", &Attribution::other_thread},
    {"thread_name", &Attribution::thread_name},
    {"none", &Attribution::none},
};

struct PeakField {
  const char* key;
  std::optional<std::int64_t> MemoryPeaks::*member;
};
constexpr PeakField peak_fields[] = {
    {"allocated_bytes", &MemoryPeaks::allocated},
    {"reserved_bytes", &MemoryPeaks::reserved},
    {"process_bytes", &MemoryPeaks::process},
    {"device_used_bytes", &MemoryPeaks::device_used},
};

}  // namespace ac_advisor::trace
