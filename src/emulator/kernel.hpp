#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "emulator/record.hpp"

namespace emulator {

struct CodeObject;

/// What a kernel's code says of itself; decides occupancy, hence grids and scratch of libraries.
struct Resources {
  int registers = 32;
  int static_shared_bytes = 0;
  int local_bytes = 0;
  int constant_bytes = 0;
  int max_threads = 1024;
  int binary_version = 0;  ///< compute capability of the code, 86 for 8.6; 0: not known
  bool from_code = false;  ///< false: the code was not found, these are defaults
};

struct Kernel {
  std::string name;  ///< as in the code, mangled
  const CodeObject* code = nullptr;
  int thread_limit = -1;
  int max_dynamic_shared_bytes = 48 << 10;
  std::atomic<bool> resources_known{false};
  Resources resources;
  std::array<std::atomic<std::uint64_t>, record::segment_count> launches{};
  std::array<std::uint64_t, record::segment_count> before_step{};  ///< of `launches`
};

/// Registers what stands for a kernel in the program: the host's stub, or nothing (`host` null).
Kernel* add_kernel(std::string name, const CodeObject* code, const void* host, int thread_limit);
/// Of a stub, or of a handle (CUfunction, cudaKernel_t), which is the Kernel's own address. Null
/// where it is neither.
Kernel* find_kernel(const void* function);
/// One that a library launches inside itself, by a name that says which and for what.
Kernel* library_kernel(const std::string& name);
const Resources& resources(Kernel& kernel);
void for_each_kernel(const std::function<void(Kernel&)>& visit);

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};
enum class LaunchError { none, invalid_configuration, invalid_value, no_image };
/// What the driver checks of a launch.
LaunchError check_launch(Kernel& kernel, Dim grid, Dim block, std::size_t dynamic_shared_bytes);

/// Counts a launch now, or in the graph that `stream` is captured into.
void launch(Kernel& kernel, const void* stream);

}  // namespace emulator
