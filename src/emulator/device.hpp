#pragma once

#include <cstdint>
#include <string>

namespace emulator {

/// What the device says of itself. From the file that AC_ADVISOR_EMULATOR_DEVICE names: a line
/// "key value" for each field, written by `ac-advisor dryrun` out of data/devices.
struct Device {
  std::string name = "h100-80gb";
  std::string title = "NVIDIA H100 80GB HBM3";
  std::uint64_t total_bytes = 85028765696;
  std::uint64_t context_bytes = 520ull << 20;
  std::uint64_t l2_bytes = 50ull << 20;
  int multiprocessors = 132;
  int major = 9, minor = 0;
  int clock_khz = 1980000, memory_clock_khz = 2619000, memory_bus_bits = 5120;
};

/// What is the same for every device of a compute capability: CUDA C++ Programming Guide 13.0,
/// table "Technical Specifications per Compute Capability".
struct Capability {
  int major, minor;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  int shared_per_multiprocessor;  ///< bytes
  int shared_per_block_optin;     ///< bytes
  bool clusters, tensor_maps;
};

const Device& device();
const Capability& capability();
/// Devices that the process sees: the ranks of one node.
int device_count();
/// Of the calling thread.
int& current_device();

}  // namespace emulator
