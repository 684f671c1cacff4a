#pragma once

#include <fmt/format.h>

#include <string>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

inline double gibibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1LL << 30); }

/// "76.05 of 79.19 GiB with context and margin"
inline std::string needed(const profile::Fit& fit) {
  return fmt::format("{:.2f} of {:.2f} GiB with context and margin", gibibytes(fit.required),
                     gibibytes(fit.usable));
}

}  // namespace ac_advisor::advise
