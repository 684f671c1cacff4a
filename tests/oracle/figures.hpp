#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cases.hpp"

namespace ac_advisor::test {

/// One figure of a step: bytes, launches, parameters.
struct Figure {
  std::int64_t planned = 0, counted = 0;
  [[nodiscard]] std::int64_t off() const { return planned - counted; }
};
/// By name: "allocated", "reserved", "launches", the phases' peaks ("forward", …) and what else the
/// file counted of the step.
using Figures = std::map<std::string, Figure>;

/// Plans the step, and says what PyTorch counted beside it.
[[nodiscard]] Figures figures_of(const OracleCase& one);

}  // namespace ac_advisor::test
