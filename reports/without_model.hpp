#pragma once

#include "ac_advisor/reports/reports.hpp"

/// Renderers of a profile whose model and configuration are not known: of a memory snapshot.
namespace ac_advisor::reports {

[[nodiscard]] std::string table_without_model(const profile::Profile& profile, const Style& style);
[[nodiscard]] std::string markdown_without_model(const profile::Profile& profile);
[[nodiscard]] std::string csv_without_model(const profile::Profile& profile);

}  // namespace ac_advisor::reports
