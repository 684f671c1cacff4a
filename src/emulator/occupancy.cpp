#include "emulator/occupancy.hpp"

#include <algorithm>

#include "emulator/device.hpp"

namespace emulator {
namespace {

// cuda_occupancy.h of CUDA 13, compute capability 8.0 to 12.0: registers are given to a warp in
// units of 256, multiprocessors have four partitions, shared memory comes in units of 128 bytes
// with 1 KiB a block for the system.
constexpr int warp = 32, register_unit = 256, registers = 65536, partitions = 4;
constexpr std::size_t shared_unit = 128, shared_of_system = 1024;

template <typename T>
T round_up(T n, T to) {
  return (n + to - 1) / to * to;
}

int registers_of_warp(const Resources& r) {
  return round_up(std::max(r.registers, 1) * warp, register_unit);
}

}  // namespace

int max_threads(const Resources& r) {
  const int warps = registers / partitions / registers_of_warp(r) * partitions;
  return std::min({r.max_threads, 1024, warps * warp});
}

int blocks_per_multiprocessor(const Resources& r, int threads, std::size_t dynamic_shared_bytes) {
  const Capability& c = capability();
  const int warps = (threads + warp - 1) / warp;
  if (threads > max_threads(r)) return 0;
  const int by_threads = c.threads_per_multiprocessor / warp / warps;
  const int by_registers = registers / partitions / registers_of_warp(r) * partitions / warps;
  const std::size_t shared = round_up(
      static_cast<std::size_t>(r.static_shared_bytes) + dynamic_shared_bytes + shared_of_system,
      shared_unit);
  const int by_shared =
      static_cast<int>(static_cast<std::size_t>(c.shared_per_multiprocessor) / shared);
  return std::min({by_threads, c.blocks_per_multiprocessor, by_registers, by_shared});
}

int active_clusters(const Resources& r, int threads, std::size_t dynamic_shared_bytes,
                    int cluster_blocks) {
  const int blocks =
      blocks_per_multiprocessor(r, threads, dynamic_shared_bytes) * device().multiprocessors;
  return blocks / std::max(cluster_blocks, 1);
}

}  // namespace emulator
