#pragma once

#include <string>

#include "ac_advisor/trace/trace.hpp"
#include "files/byte_source.hpp"

namespace ac_advisor::trace {

/// Reads what torch.profiler's export_chrome_trace wrote, event by event: a trace of gigabytes does
/// not become a tree in memory. Throws UserError naming `origin`.
[[nodiscard]] TraceFile read_kineto(files::ByteSource& source, const std::string& origin);

}  // namespace ac_advisor::trace
