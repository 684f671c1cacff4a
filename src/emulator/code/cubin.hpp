#pragma once

#include <string>
#include <unordered_map>

#include "emulator/kernel.hpp"

namespace emulator {

/// Each kernel's registers, shared memory and the like, by its mangled name, from a cubin (ELF).
std::unordered_map<std::string, Resources> read_cubin(const std::string& image);

}  // namespace emulator
