#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

/// Device memory: addresses of host memory that is mapped when it is touched, and a balance for
/// each device of what a real one would have handed out.
namespace emulator::memory {

inline constexpr std::size_t granule = 2u << 20;  ///< what the driver maps at least

enum class Kind { device, managed, host, registered, reserved };

struct Range {
  char* base = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  Kind kind = Kind::device;
};

/// Null where the device has no room.
void* allocate(std::size_t bytes, int device, Kind kind = Kind::device);
/// False where `pointer` is no allocation's beginning.
bool release(void* pointer);

/// Page-locked host memory: real memory, none of the device's.
void* allocate_host(std::size_t bytes);
void register_host(void* pointer, std::size_t bytes);
bool unregister_host(void* pointer);

/// Addresses without memory, for cuMemMap.
void* reserve(std::size_t bytes, int device);
bool unreserve(void* pointer);
/// Gives what was written to the pages back to the host.
void discard(void* pointer, std::size_t bytes);

/// The range that `pointer` lies in.
std::optional<Range> find(const void* pointer);
inline bool on_device(const Range& r) { return r.kind == Kind::device || r.kind == Kind::reserved; }

/// Takes bytes (whole granules) from a device; false where it has too few.
bool charge(int device, std::size_t bytes);
void discharge(int device, std::size_t bytes);

struct Balance {
  std::uint64_t in_use = 0, peak = 0;  ///< bytes, without the context
  std::uint64_t failed = 0;            ///< bytes of the last request that had no room; 0: none
  std::uint64_t failures = 0;
};
/// None where a thread, perhaps this one, is in the middle of a change: for a handler of signals.
std::optional<Balance> balance_unless_locked(int device) noexcept;
std::uint64_t free_bytes(int device);

}  // namespace emulator::memory
