#pragma once

#include <string>

#include "emulator/kernel.hpp"

namespace emulator {

/// From the wrapper that nvcc registers (fatBinaryWrapper: magic, version, data). Kept as it is;
/// its code is looked at when a kernel's resources are asked for.
const CodeObject* add_code_object(const void* wrapper);
/// From what cuModuleLoadData gets: a cubin (ELF), a fat binary or PTX's text.
const CodeObject* add_image(const void* image);

Resources find_resources(const CodeObject& code, const std::string& kernel);

}  // namespace emulator
