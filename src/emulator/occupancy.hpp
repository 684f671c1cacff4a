#pragma once

#include <cstddef>

#include "emulator/kernel.hpp"

namespace emulator {

/// Blocks of `threads` that one multiprocessor holds at once: limited by threads, blocks, registers
/// (allocated a warp at a time) and shared memory. After cuda_occupancy.h of CUDA 13.
int blocks_per_multiprocessor(const Resources& r, int threads, std::size_t dynamic_shared_bytes);
/// Threads of a block that registers allow.
int max_threads(const Resources& r);
int active_clusters(const Resources& r, int threads, std::size_t dynamic_shared_bytes,
                    int cluster_blocks);

}  // namespace emulator
