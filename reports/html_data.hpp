#pragma once

#include <string>

#include "ac_advisor/reports/page.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {

/// What the page's script reads: configurations, savings, tables. At most 1000 configurations, and
/// timelines and settings for as many as 400 kB hold.
[[nodiscard]] Json page_data(const Page& page);
/// The sentences at the top.
[[nodiscard]] std::string page_verdict(const Page& page);
/// "llama-3.2-1b", or the file names.
[[nodiscard]] std::string page_title(const Page& page);

}  // namespace ac_advisor::reports
