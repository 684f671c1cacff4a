#include "grouped.hpp"

namespace ac_advisor::model {

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::size_t sign = n < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > 3 + sign; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace ac_advisor::model
