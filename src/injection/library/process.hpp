#pragma once

#include <atomic>
#include <string>

#include "trace/recorder.hpp"

/// What there is once in a traced process.
namespace ac_advisor::injection {

/// Made at the first call and never destroyed: the program may call NVTX and CUDA until it is gone.
[[nodiscard]] trace::Recorder& recorder();

/// Writes the trace to the folder that AC_ADVISOR_TRACE_DIR names, whole; does nothing
/// without the variable. `ended`: the program ends now.
void write_trace(bool ended);

/// True in a child that was forked off without an exec: its copies of the locks may be held by
/// threads that it does not have.
extern std::atomic<bool> forked_child;

/// Runs what the program must not see fail: an exception would end it.
template <typename Result, typename Function>
Result guarded(Result otherwise, const Function& function) noexcept {
  if (forked_child.load(std::memory_order_relaxed)) return otherwise;
  try {
    return function();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace ac_advisor::injection
