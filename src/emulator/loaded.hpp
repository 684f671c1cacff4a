#pragma once

namespace emulator {

/// A function as the library itself has it that the program has loaded, not as it is answered here;
/// null where it is not loaded.
void* own_function(const char* library, const char* name) noexcept;

}  // namespace emulator
