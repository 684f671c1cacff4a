#pragma once

#include <string>

#include "ac_advisor/advise/compression_choice.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace ac_advisor::reports {

inline constexpr const char* compression_schema = "ac-advisor/compression/1";

[[nodiscard]] std::string table(const advise::CompressionChoice& choice, const Style& style);
[[nodiscard]] std::string markdown(const advise::CompressionChoice& choice);
[[nodiscard]] std::string csv(const advise::CompressionChoice& choice);
[[nodiscard]] std::string json(const advise::CompressionChoice& choice);

}  // namespace ac_advisor::reports
