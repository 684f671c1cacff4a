#pragma once

#include <string>
#include <vector>

#include "ac_advisor/reports/page.hpp"

namespace ac_advisor::cli {

/// Of one file a summary; of a folder, or of several files, the ranks beside each other. Throws
/// UserError naming the file.
[[nodiscard]] reports::Document read_traces(const std::vector<std::string>& files);

}  // namespace ac_advisor::cli
