#include "ac_advisor/simulate/caching_allocator.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

namespace ac_advisor::test {
namespace {

using simulate::AllocatorOptions;
using simulate::CachingAllocator;

constexpr std::int64_t mib = 1 << 20;

}  // namespace

TEST_CASE("a request is rounded up to 512 bytes") {
  CachingAllocator a;
  static_cast<void>(a.allocate(1));
  CHECK(a.allocated() == 512);
  static_cast<void>(a.allocate(513));
  CHECK(a.allocated() == 512 + 1024);
}

TEST_CASE(
    "up to 1 MiB comes from 2 MiB segments, below 10 MiB from 20 MiB, above from whole 2 MiB") {
  const auto reserved = [](std::int64_t bytes) {
    CachingAllocator a;
    static_cast<void>(a.allocate(bytes));
    return a.reserved();
  };
  CHECK(reserved(512) == 2 * mib);
  CHECK(reserved(mib) == 2 * mib);
  CHECK(reserved(mib + 1) == 20 * mib);
  CHECK(reserved(10 * mib - 512) == 20 * mib);
  CHECK(reserved(10 * mib) == 10 * mib);
  CHECK(reserved(11 * mib) == 12 * mib);  // rounded up to a multiple of 2 MiB
}

TEST_CASE("zero bytes take no block") {
  CachingAllocator a;
  a.free(a.allocate(0));
  CHECK(a.allocated() == 0);
  CHECK(a.reserved() == 0);
}

TEST_CASE("a small block is split when 512 bytes remain, a large one when more than 1 MiB does") {
  CachingAllocator small;
  static_cast<void>(small.allocate(mib));
  static_cast<void>(small.allocate(mib - 512));
  static_cast<void>(small.allocate(512));
  CHECK(small.reserved() == 2 * mib);  // all three in one segment

  CachingAllocator large;
  const CachingAllocator::Handle block = large.allocate(20 * mib);
  large.free(block);
  static_cast<void>(large.allocate(19 * mib));  // 1 MiB would remain: not more than 1 MiB
  CHECK(large.allocated() == 20 * mib);         // the whole block is handed out
}

TEST_CASE("the smallest free block that fits is taken") {
  CachingAllocator a;
  const auto big = a.allocate(40 * mib), fitting = a.allocate(30 * mib);
  a.free(big);
  a.free(fitting);
  static_cast<void>(a.allocate(30 * mib));
  static_cast<void>(a.allocate(40 * mib));
  CHECK(a.reserved() == 70 * mib);  // each went back to its own segment
}

TEST_CASE("free neighbours become one block again") {
  CachingAllocator a;
  const auto whole = a.allocate(64 * mib);
  a.free(whole);
  const auto first = a.allocate(30 * mib), second = a.allocate(30 * mib);
  a.free(first);
  a.free(second);
  CHECK(a.inactive_split() == 0);
  static_cast<void>(a.allocate(64 * mib));
  CHECK(a.reserved() == 64 * mib);
}

TEST_CASE("streams do not share blocks") {
  CachingAllocator a;
  a.free(a.allocate(32 * mib, 0));
  static_cast<void>(a.allocate(32 * mib, 1));
  CHECK(a.reserved() == 64 * mib);
}

TEST_CASE("reserved memory stays when blocks are freed; its peak is kept") {
  CachingAllocator a;
  a.free(a.allocate(100 * mib));
  CHECK(a.allocated() == 0);
  CHECK(a.reserved() == 100 * mib);
  CHECK(a.peak_allocated() == 100 * mib);
  a.reset_peaks();
  CHECK(a.peak_allocated() == 0);
}

TEST_CASE("an expandable segment grows by what is missing instead of taking another") {
  AllocatorOptions options;
  options.expandable_segments = true;
  CachingAllocator a(options);
  a.free(a.allocate(40 * mib));
  static_cast<void>(a.allocate(60 * mib));
  CHECK(a.reserved() == 60 * mib);  // 40 MiB are there, 20 MiB are mapped behind them
  CHECK(a.segments() == 1);
  CachingAllocator fixed;
  fixed.free(fixed.allocate(40 * mib));
  static_cast<void>(fixed.allocate(60 * mib));
  CHECK(fixed.reserved() == 100 * mib);
}

TEST_CASE("at the limit cached segments are released, and what still does not fit fails") {
  AllocatorOptions options;
  options.limit_bytes = 100 * mib;
  CachingAllocator a(options);
  a.free(a.allocate(60 * mib));
  CHECK(a.allocate(80 * mib) >= 0);
  CHECK(a.reserved() == 80 * mib);
  CHECK(a.allocate(40 * mib) == CachingAllocator::failed);
}

TEST_CASE("after any sequence allocated is the sum of what lives, and all of it comes back") {
  for (bool expandable : {false, true}) {
    std::mt19937 random(7);
    AllocatorOptions options;
    options.expandable_segments = expandable;
    CachingAllocator a(options);
    std::map<CachingAllocator::Handle, std::int64_t> live;
    std::int64_t least = 0;
    for (int i = 0; i < 20000; ++i) {
      if (live.empty() || random() % 5 < 3) {
        const std::int64_t bytes = std::int64_t{1} << (random() % 27);
        const auto handle = a.allocate(bytes, static_cast<int>(random() % 3));
        CHECK(!live.contains(handle));
        live[handle] = (bytes + 511) / 512 * 512;
        least += live[handle];
      } else {
        auto it = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        least -= it->second;
        a.free(it->first);
        live.erase(it);
      }
      // a large block that is not worth splitting may hold up to 1 MiB more than was asked for
      CHECK(a.allocated() >= least);
      CHECK(a.allocated() <= least + static_cast<std::int64_t>(live.size()) * mib);
      CHECK(a.reserved() >= a.allocated() + a.inactive_split());
    }
    for (const auto& [handle, bytes] : live) a.free(handle);
    CHECK(a.allocated() == 0);
    CHECK(a.inactive_split() <= (expandable ? a.reserved() : 0));
  }
}

}  // namespace ac_advisor::test
