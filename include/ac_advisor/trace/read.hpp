#pragma once

#include <string>

#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::trace {

/// A trace that `ac-advisor trace` wrote, one of torch.profiler (export_chrome_trace), or an SQLite
/// export of Nsight Systems; which, the contents tell. Throws UserError naming the file, what is
/// wrong with it and, for a format that must be converted, the command that does it.
[[nodiscard]] TraceFile read_trace(const std::string& file);

/// The same for bytes that are in memory.
[[nodiscard]] TraceFile read_trace_bytes(const std::string& bytes, const std::string& origin);

}  // namespace ac_advisor::trace
