#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::trace {

/// A trace that `ac-advisor trace` wrote, one of torch.profiler (export_chrome_trace), or an SQLite
/// export of Nsight Systems; which, the contents tell. It may be packed by gzip or zstd, and be a
/// pipe; "-" is the standard input. Throws UserError naming the file, what is wrong with it and,
/// for a format that must be converted, the command that does it.
[[nodiscard]] TraceFile read_trace(const std::string& file);

/// The same, but a file that holds no trace is no error: its text, for another reader. Throws
/// UserError beyond 64 MiB of it.
[[nodiscard]] std::variant<TraceFile, std::string> read_trace_or_text(const std::string& file);

/// The same for bytes that are in memory.
[[nodiscard]] TraceFile read_trace_bytes(const std::string& bytes, const std::string& origin);

/// The files of a folder that may be traces, by their endings; sorted. Throws UserError where there
/// is none.
[[nodiscard]] std::vector<std::string> trace_files(const std::string& folder);

}  // namespace ac_advisor::trace
