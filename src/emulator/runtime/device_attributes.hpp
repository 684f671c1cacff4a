#pragma once

#include <cuda_runtime_api.h>

namespace emulator::runtime {

cudaDeviceProp properties(int index);
/// Of cudaDeviceGetAttribute and cuDeviceGetAttribute, whose numbers are the same. False where the
/// attribute is not known.
bool find_attribute(int attribute, int index, int* value);

}  // namespace emulator::runtime
