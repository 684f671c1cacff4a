#pragma once

#include <cstdint>
#include <string>

namespace ac_advisor::model {

/// "1,234,567"
[[nodiscard]] std::string grouped(std::int64_t n);

}  // namespace ac_advisor::model
