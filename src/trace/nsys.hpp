#pragma once

#include <string>

#include "ac_advisor/trace/trace.hpp"
#include "trace/sqlite.hpp"

namespace ac_advisor::trace {

/// Reads what `nsys export --type sqlite` wrote. Its tables and columns differ from version to
/// version: what is missing is noted, not guessed. Throws UserError naming `origin`.
[[nodiscard]] TraceFile read_nsys(const Database& database, const std::string& origin);

}  // namespace ac_advisor::trace
