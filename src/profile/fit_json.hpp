#pragma once

#include "reader.hpp"

namespace ac_advisor::profile {

[[nodiscard]] Json fit_json(const Fit& fit);
void read_fit(const Reader& reader, Fit& fit);

}  // namespace ac_advisor::profile
