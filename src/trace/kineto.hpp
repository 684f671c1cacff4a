#pragma once

#include <istream>
#include <string>

#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::trace {

/// Reads what torch.profiler's export_chrome_trace wrote, event by event: a trace of gigabytes does
/// not become a tree in memory. Throws UserError naming `origin`.
[[nodiscard]] TraceFile read_kineto(std::istream& stream, const std::string& origin);

}  // namespace ac_advisor::trace
