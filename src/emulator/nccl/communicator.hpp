#pragma once

namespace emulator::nccl {

/// What an ncclComm_t points to: this process is one rank; nobody plays the others.
struct Communicator {
  int rank = 0, ranks = 1, device = 0;
};

enum Result : int { success = 0, invalid_argument = 4 };

}  // namespace emulator::nccl
