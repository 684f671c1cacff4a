#include "emulator/stream.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "emulator/device.hpp"

namespace emulator {
namespace {

constexpr std::uintptr_t legacy = 1, per_thread = 2;  ///< cudaStreamLegacy, cudaStreamPerThread

Stream* default_stream() {
  static auto* streams = [] {
    auto* all = new std::vector<Stream>(static_cast<std::size_t>(device_count()));
    for (std::size_t d = 0; d < all->size(); ++d) (*all)[d].device = static_cast<int>(d);
    return all;
  }();
  return &streams->at(static_cast<std::size_t>(current_device()));
}

}  // namespace

Stream* stream_of(const void* handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == legacy || value == per_thread) return default_stream();
  return static_cast<Stream*>(const_cast<void*>(handle));
}

Stream* create_stream(unsigned flags, int priority) {
  static std::atomic<std::uint64_t> next{16};
  auto* s = new Stream;
  s->id = next++;
  s->device = current_device();
  s->flags = flags;
  s->priority = std::clamp(priority, highest_priority, lowest_priority);
  return s;
}

bool destroy_stream(const void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= per_thread) return false;
  delete static_cast<const Stream*>(handle);
  return true;
}

}  // namespace emulator
