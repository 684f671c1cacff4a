#pragma once

#include <cstdint>

namespace ac_advisor::injection {

/// Sets the functions behind NVTX's ranges in one instance of NVTX (each library that uses the
/// header-only NVTX 3 has its own). False where it does not offer its tables.
[[nodiscard]] bool attach_nvtx(const void* (*get_export_table)(std::uint32_t));

}  // namespace ac_advisor::injection
