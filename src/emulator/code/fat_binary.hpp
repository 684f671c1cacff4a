#pragma once

#include <cstdint>
#include <string>

namespace emulator {

/// The machine code of a fat binary for this device: the entry of its major version with the
/// highest minor that is not above the device's, decompressed. Empty where there is none, or where
/// libzstd, which decompresses, cannot be loaded. `data` begins with the fat binary's header.
std::string machine_code(const void* data);

}  // namespace emulator
