#pragma once

#include "emulator/cudnn/api.hpp"

namespace emulator::cudnn {

/// What a cudnnHandle_t points to here. The real one is a device's; only work is issued with it,
/// and no work reaches the real library.
struct Handle {
  void* stream = nullptr;
};

}  // namespace emulator::cudnn
