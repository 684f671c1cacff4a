#include "emulator/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "emulator/device.hpp"
#include "emulator/record.hpp"

namespace emulator::memory {
namespace {

constexpr std::size_t alignment = 512;         ///< of cudaMalloc's small allocations
constexpr std::size_t small = 1u << 20;        ///< below it, allocations share granules
constexpr std::size_t addresses_per_byte = 4;  ///< of the device: room for fragmentation

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

char* map_pages(std::size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  ::madvise(p, bytes, MADV_NOHUGEPAGE);  // a byte that is touched costs a page, not 2 MiB
  ::madvise(p, bytes, MADV_DONTDUMP);
  return static_cast<char*>(p);
}

/// The addresses of one device, handed out lowest first, as the driver's are.
struct Arena {
  char* base = nullptr;
  std::size_t bytes = 0;
  std::map<char*, std::size_t> gaps;
  /// Granules that small allocations share: what is left of the open one, and how many live in
  /// each.
  char* open = nullptr;
  std::size_t open_left = 0;
  std::map<char*, int> shared;
  Balance balance;

  char* take(std::size_t n) {
    if (base == nullptr) {
      bytes = round_up(device().total_bytes, granule) * addresses_per_byte;
      char* raw = map_pages(bytes + granule);
      if (raw == nullptr) return nullptr;
      base = reinterpret_cast<char*>(round_up(reinterpret_cast<std::size_t>(raw), granule));
      gaps[base] = bytes;
    }
    for (auto gap = gaps.begin(); gap != gaps.end(); ++gap) {
      if (gap->second < n) continue;
      char* p = gap->first;
      const std::size_t left = gap->second - n;
      gaps.erase(gap);
      if (left > 0) gaps[p + n] = left;
      return p;
    }
    return nullptr;
  }

  void give(char* p, std::size_t n) {
    discard(p, n);
    auto next = gaps.upper_bound(p);
    if (next != gaps.end() && p + n == next->first) {
      n += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == p) {
        before->second += n;
        return;
      }
    }
    gaps[p] = n;
  }
};

struct State {
  std::mutex mutex;
  std::map<char*, Range> ranges;  ///< by their last byte + 1, so that upper_bound finds a pointer's
  std::vector<Arena> arenas = std::vector<Arena>(static_cast<std::size_t>(device_count()));
};
/// Never destroyed: libraries free device memory in their own destructors.
State& state() {
  static auto* s = new State;
  return *s;
}

Arena& arena(int device) { return state().arenas.at(static_cast<std::size_t>(device)); }

std::uint64_t room(const Arena& a) {
  const Device& d = device();
  const std::uint64_t taken = d.context_bytes + a.balance.in_use;
  return taken < d.total_bytes ? d.total_bytes - taken : 0;
}

bool charge_locked(Arena& a, std::size_t bytes) {
  if (bytes > room(a)) {
    a.balance.failed = bytes;
    ++a.balance.failures;
    return false;
  }
  a.balance.in_use += bytes;
  if (a.balance.in_use > a.balance.peak) {
    a.balance.peak = a.balance.in_use;
    record::tell_balance(static_cast<int>(&a - state().arenas.data()), a.balance);
  }
  return true;
}

char* take_small(Arena& a, std::size_t bytes) {
  if (a.open == nullptr || a.open_left < bytes) {
    if (!charge_locked(a, granule)) return nullptr;
    a.open = a.take(granule);
    a.open_left = granule;
    a.shared[a.open] = 0;
  }
  char* p = a.open + (granule - a.open_left);
  a.open_left -= bytes;
  ++a.shared[a.open];
  return p;
}

void give_small(Arena& a, char* p) {
  auto in = std::prev(a.shared.upper_bound(p));
  if (--in->second > 0 || in->first == a.open) return;
  a.give(in->first, granule);
  a.balance.in_use -= granule;
  a.shared.erase(in);
}

void remember(char* p, std::size_t bytes, int device, Kind kind) {
  state().ranges[p + bytes] = {p, bytes, device, kind};
}

/// Removes the range that begins at `p`, where it is of one of the kinds.
std::optional<Range> forget(void* p, std::initializer_list<Kind> kinds) {
  State& s = state();
  auto found = s.ranges.upper_bound(static_cast<char*>(p));
  if (found == s.ranges.end() || found->second.base != p) return std::nullopt;
  if (std::find(kinds.begin(), kinds.end(), found->second.kind) == kinds.end()) return std::nullopt;
  Range range = found->second;
  s.ranges.erase(found);
  return range;
}

}  // namespace

void* allocate(std::size_t bytes, int device, Kind kind) {
  const std::lock_guard lock(state().mutex);
  Arena& a = arena(device);
  char* p = nullptr;
  if (bytes < small) {
    bytes = round_up(std::max<std::size_t>(bytes, 1), alignment);
    p = take_small(a, bytes);
  } else {
    bytes = round_up(bytes, granule);
    if (!charge_locked(a, bytes)) return nullptr;
    p = a.take(bytes);
    if (p == nullptr) a.balance.in_use -= bytes;
  }
  if (p != nullptr) remember(p, bytes, device, kind);
  return p;
}

bool release(void* pointer) {
  const std::lock_guard lock(state().mutex);
  const auto range = forget(pointer, {Kind::device, Kind::managed});
  if (!range) return false;
  Arena& a = arena(range->device);
  if (range->bytes < small) {
    give_small(a, range->base);
  } else {
    a.give(range->base, range->bytes);
    a.balance.in_use -= range->bytes;
  }
  return true;
}

void* allocate_host(std::size_t bytes) {
  void* p = nullptr;
  if (::posix_memalign(&p, 4096, std::max<std::size_t>(bytes, 1)) != 0) return nullptr;
  const std::lock_guard lock(state().mutex);
  remember(static_cast<char*>(p), std::max<std::size_t>(bytes, 1), current_device(), Kind::host);
  return p;
}

void register_host(void* pointer, std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  remember(static_cast<char*>(pointer), bytes, current_device(), Kind::registered);
}

bool unregister_host(void* pointer) {
  const std::lock_guard lock(state().mutex);
  const auto range = forget(pointer, {Kind::host, Kind::registered});
  if (range && range->kind == Kind::host) std::free(range->base);
  return range.has_value();
}

void* reserve(std::size_t bytes, int device) {
  bytes = round_up(bytes, granule);
  char* raw = map_pages(bytes + granule);
  if (raw == nullptr) return nullptr;
  char* p = reinterpret_cast<char*>(round_up(reinterpret_cast<std::size_t>(raw), granule));
  if (p > raw) ::munmap(raw, static_cast<std::size_t>(p - raw));
  if (p < raw + granule) ::munmap(p + bytes, static_cast<std::size_t>(raw + granule - p));
  const std::lock_guard lock(state().mutex);
  remember(p, bytes, device, Kind::reserved);
  return p;
}

bool unreserve(void* pointer) {
  const std::lock_guard lock(state().mutex);
  const auto range = forget(pointer, {Kind::reserved});
  if (range) ::munmap(range->base, range->bytes);
  return range.has_value();
}

void discard(void* pointer, std::size_t bytes) { ::madvise(pointer, bytes, MADV_DONTNEED); }

std::optional<Range> find(const void* pointer) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  char* p = static_cast<char*>(const_cast<void*>(pointer));
  const auto found = s.ranges.upper_bound(p);
  if (found == s.ranges.end() || p < found->second.base) return std::nullopt;
  return found->second;
}

bool charge(int device, std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  return charge_locked(arena(device), bytes);
}

void discharge(int device, std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  arena(device).balance.in_use -= bytes;
}

std::optional<Balance> balance_unless_locked(int device) noexcept {
  const std::unique_lock lock(state().mutex, std::try_to_lock);
  return lock ? std::optional(arena(device).balance) : std::nullopt;
}

std::uint64_t free_bytes(int device) {
  const std::lock_guard lock(state().mutex);
  return room(arena(device));
}

}  // namespace emulator::memory
