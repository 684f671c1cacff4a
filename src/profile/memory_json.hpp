#pragma once

#include "reader.hpp"

/// `memory` of a profile: bytes, exact.
namespace ac_advisor::profile {

[[nodiscard]] Json memory_json(const Memory& memory);
void read_memory(const Reader& reader, Memory& memory);

}  // namespace ac_advisor::profile
