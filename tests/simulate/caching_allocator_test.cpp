#include "ac_advisor/simulate/caching_allocator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace ac_advisor::test {
namespace {

using simulate::AllocatorOptions;
using simulate::CachingAllocator;
using Handle = CachingAllocator::Handle;
using BlockInfo = CachingAllocator::BlockInfo;

constexpr std::int64_t KiB = 1024, MiB = 1024 * KiB;
constexpr std::int64_t no_limit = 0;

BlockInfo block_of(const CachingAllocator& a, Handle handle) {
  const std::vector<BlockInfo> blocks = a.snapshot();
  return *std::find_if(blocks.begin(), blocks.end(),
                       [&](const BlockInfo& b) { return b.handle == handle; });
}

/// Reserved bytes after one request to a new allocator.
std::int64_t reserved_for(std::int64_t bytes) {
  CachingAllocator a;
  CHECK(a.allocate(bytes) >= 0);
  return a.reserved();
}

std::int64_t up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// PyTorch's rules over nothing but segments and the intervals in use: a free block is a longest
/// interval that is mapped and not in use, found anew for each request. No lists, no merging.
class Oracle {
 public:
  explicit Oracle(AllocatorOptions options) : options_(options) {}

  bool allocate(int key, std::int64_t bytes, int stream) {
    const std::int64_t size = up(bytes, 512);
    const bool small = size <= MiB;
    std::optional<Free> found = fit(size, stream, small);
    if (!found) found = make(size, stream, small);
    if (!found) {
      release();
      found = make(size, stream, small);
    }
    if (!found) return false;
    const std::int64_t rest = found->size - size;
    const bool split = small || options_.expandable_segments ? rest >= 512 : rest > MiB;
    const std::int64_t taken = split ? size : found->size;
    segments_[found->segment].used[found->address] = taken;
    live_[key] = {found->segment, found->address};
    peak_allocated_ = std::max(peak_allocated_, allocated());
    return true;
  }
  void free(int key) {
    const auto [segment, address] = live_.at(key);
    segments_[segment].used.erase(address);
    live_.erase(key);
  }
  [[nodiscard]] std::int64_t allocated() const {
    std::int64_t sum = 0;
    for (const auto& [id, s] : segments_)
      for (const auto& [address, size] : s.used) sum += size;
    return sum;
  }
  [[nodiscard]] std::int64_t reserved() const {
    std::int64_t sum = 0;
    for (const auto& [id, s] : segments_) sum += s.reserved();
    return sum;
  }
  [[nodiscard]] std::int64_t peak_allocated() const { return peak_allocated_; }
  [[nodiscard]] std::int64_t peak_reserved() const { return peak_reserved_; }
  [[nodiscard]] std::int64_t segments() const {
    return std::count_if(segments_.begin(), segments_.end(),
                         [](const auto& s) { return !s.second.mapped.empty(); });
  }
  [[nodiscard]] std::int64_t inactive_split() const {
    std::int64_t sum = 0;
    if (!options_.expandable_segments)
      for (const auto& [id, s] : segments_)
        if (!s.used.empty()) sum += s.reserved() - s.in_use();
    return sum;
  }

 private:
  struct Segment {
    int stream = 0;
    bool small = false;
    std::int64_t granule = 0;       // a plain segment is one granule
    std::set<std::int64_t> mapped;  // granules
    std::map<std::int64_t, std::int64_t> used;

    [[nodiscard]] std::int64_t reserved() const {
      return granule * static_cast<std::int64_t>(mapped.size());
    }
    [[nodiscard]] std::int64_t in_use() const {
      std::int64_t sum = 0;
      for (const auto& [address, size] : used) sum += size;
      return sum;
    }
  };
  struct Free {
    std::int64_t segment = 0, address = 0, size = 0;
    std::int64_t could_be = 0;  // with the unmapped addresses behind it
  };

  /// By address, one segment after the other.
  [[nodiscard]] std::vector<Free> free_blocks(int stream, bool small) const {
    std::vector<Free> found;
    for (const auto& [id, s] : segments_) {
      if (s.stream != stream || s.small != small) continue;
      for (auto first = s.mapped.begin(); first != s.mapped.end();) {
        auto last = first;
        std::int64_t end = *first + 1;
        while (++last != s.mapped.end() && *last == end) ++end;
        std::int64_t at = *first * s.granule;
        for (auto u = s.used.lower_bound(at); u != s.used.end() && u->first < end * s.granule;
             ++u) {
          if (u->first > at) found.push_back({id, at, u->first - at, u->first - at});
          at = u->first + u->second;
        }
        const std::int64_t size = end * s.granule - at;
        const std::int64_t next =
            last == s.mapped.end() ? (std::int64_t{1} << 50) : *last * s.granule;
        if (size > 0)
          found.push_back({id, at, size, options_.expandable_segments ? next - at : size});
        first = last;
      }
    }
    return found;
  }

  [[nodiscard]] std::optional<Free> fit(std::int64_t size, int stream, bool small) const {
    std::vector<Free> blocks = free_blocks(stream, small);
    std::erase_if(blocks, [&](const Free& f) { return f.size < size; });
    std::sort(blocks.begin(), blocks.end(), [](const Free& a, const Free& b) {
      return std::tie(a.size, a.segment, a.address) < std::tie(b.size, b.segment, b.address);
    });
    if (blocks.empty()) return std::nullopt;
    std::size_t i = 0;
    while (i + 1 < blocks.size() && blocks[i + 1].could_be < blocks[i].could_be) ++i;
    return blocks[i];
  }

  bool reserve(std::int64_t bytes) {
    if (options_.limit_bytes != no_limit && reserved() + bytes > options_.limit_bytes) return false;
    peak_reserved_ = std::max(peak_reserved_, reserved() + bytes);
    return true;
  }

  std::optional<Free> make(std::int64_t size, int stream, bool small) {
    if (options_.expandable_segments) return expand(size, stream, small);
    const std::int64_t bytes = small ? 2 * MiB : size < 10 * MiB ? 20 * MiB : up(size, 2 * MiB);
    if (!reserve(bytes)) return std::nullopt;
    std::int64_t lowest = 0;
    for (const auto& [address, s] : segments_) {
      if (address - lowest >= bytes) break;
      lowest = address + s.granule;
    }
    segments_[lowest] = {stream, small, bytes, {0}, {}};
    return Free{lowest, 0, bytes, bytes};
  }

  std::optional<Free> expand(std::int64_t size, int stream, bool small) {
    auto at = std::find_if(segments_.begin(), segments_.end(), [&](const auto& s) {
      return s.second.stream == stream && s.second.small == small;
    });
    if (at == segments_.end())
      at = segments_.insert({++last_segment_, {stream, small, (small ? 2 : 20) * MiB, {}, {}}})
               .first;
    Segment& s = at->second;
    // the lowest unmapped granule from which there is room up to the next block in use, together
    // with the free block before it
    for (std::int64_t g = 0;; ++g) {
      if (s.mapped.count(g) != 0 || (g > 0 && s.mapped.count(g - 1) == 0)) continue;
      std::int64_t begin = g * s.granule;
      for (const Free& f : free_blocks(stream, small))
        if (f.address + f.size == begin) begin = f.address;
      const auto used = s.used.lower_bound(g * s.granule);
      if (used != s.used.end() && used->first - begin < size) continue;
      std::int64_t h = g;
      // a granule at a time is what mapping a run at a time comes to, but for where it fails:
      // a run is mapped whole or not at all
      while (true) {
        std::int64_t run = h;
        while (run * s.granule < begin + size && s.mapped.count(run) == 0) ++run;
        if (run > h && !reserve((run - h) * s.granule)) return std::nullopt;
        for (; h < run; ++h) s.mapped.insert(h);
        while (s.mapped.count(h) != 0) ++h;
        for (const Free& f : free_blocks(stream, small))
          if (f.address == begin && f.size >= size) return f;
      }
    }
  }

  void release() {
    for (auto& [id, s] : segments_) {
      if (options_.expandable_segments) {
        std::erase_if(s.mapped, [&, &segment = s](std::int64_t g) {
          return std::none_of(segment.used.begin(), segment.used.end(), [&](const auto& u) {
            return u.first < (g + 1) * segment.granule && u.first + u.second > g * segment.granule;
          });
        });
      } else if (s.used.empty()) {
        s.mapped.clear();
      }
    }
    std::erase_if(segments_, [](const auto& s) { return s.second.mapped.empty(); });
  }

  AllocatorOptions options_;
  // by address; expandable ones in the order that they were made
  std::map<std::int64_t, Segment> segments_;
  std::map<int, std::pair<std::int64_t, std::int64_t>> live_;
  std::int64_t last_segment_ = 0;
  std::int64_t peak_allocated_ = 0, peak_reserved_ = 0;
};

struct Live {
  Handle handle = -1;
  std::int64_t bytes = 0;
  int stream = 0;
};

/// What holds of any state, by the allocator's own list of blocks.
void check_invariants(const CachingAllocator& a, const std::map<int, Live>& live, bool expandable) {
  const std::vector<BlockInfo> blocks = a.snapshot();
  std::map<Handle, BlockInfo> used;
  std::map<std::int64_t, BlockInfo> by_address;
  std::int64_t all = 0, in_use = 0;
  for (const BlockInfo& b : blocks) {
    REQUIRE(b.size > 0);
    all += b.size;
    if (b.used) in_use += b.size;
    if (b.used) used[b.handle] = b;
    REQUIRE(by_address.insert({b.address, b}).second);
  }
  REQUIRE(all == a.reserved());
  REQUIRE(in_use == a.allocated());
  REQUIRE(a.reserved() >= a.allocated());
  for (auto b = by_address.begin(), next = b; b != by_address.end() && ++next != by_address.end();
       ++b) {
    const std::int64_t end = b->second.address + b->second.size;
    REQUIRE(end <= next->first);
    const bool neighbours = end == next->first && b->second.segment == next->second.segment;
    REQUIRE((!neighbours || b->second.used || next->second.used));
  }
  REQUIRE(used.size() == live.size());
  for (const auto& [key, l] : live) {
    const BlockInfo& b = used.at(l.handle);
    const std::int64_t rounded = up(l.bytes, 512);
    REQUIRE(b.stream == l.stream);
    REQUIRE(b.small == (rounded <= MiB));
    // a large block keeps up to 1 MiB that is not worth a split
    REQUIRE(b.size >= rounded);
    REQUIRE(b.size - rounded <= (b.small || expandable ? 0 : MiB));
  }
}

/// Returns the number of requests that failed.
int walk_beside_the_oracle(AllocatorOptions options, unsigned seed, int steps) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  CachingAllocator a(options);
  Oracle oracle(options);
  std::map<int, Live> live;
  int failures = 0;
  for (int step = 0; step < steps; ++step) {
    if (live.size() < 4 || (live.size() < 48 && below(100) < 52)) {
      constexpr std::int64_t scales[] = {4 * KiB, 300 * KiB, MiB + KiB,
                                         3 * MiB, 12 * MiB,  50 * MiB};
      // every third is a size that comes again
      const std::int64_t scale = scales[below(6)];
      const std::int64_t bytes = below(3) == 0 ? scale : 1 + below(scale);
      const int stream = static_cast<int>(below(8) / 6);
      const Handle handle = a.allocate(bytes, stream);
      REQUIRE((handle >= 0) == oracle.allocate(step, bytes, stream));
      if (handle >= 0) live[step] = {handle, bytes, stream};
      if (handle < 0) ++failures;
    } else {
      const auto victim = std::next(live.begin(), below(static_cast<std::int64_t>(live.size())));
      a.free(victim->second.handle);
      oracle.free(victim->first);
      live.erase(victim);
    }
    REQUIRE(a.allocated() == oracle.allocated());
    REQUIRE(a.reserved() == oracle.reserved());
    REQUIRE(a.peak_allocated() == oracle.peak_allocated());
    REQUIRE(a.peak_reserved() == oracle.peak_reserved());
    REQUIRE(a.segments() == oracle.segments());
    REQUIRE(a.inactive_split() == oracle.inactive_split());
    check_invariants(a, live, options.expandable_segments);
  }
  return failures;
}

}  // namespace

TEST_CASE("caching allocator: a request is rounded up to 512 bytes") {
  CachingAllocator a;
  CHECK(a.allocate(1) >= 0);
  CHECK(a.allocated() == 512);
  CHECK(a.allocate(512) >= 0);
  CHECK(a.allocated() == 512 + 512);
  CHECK(a.allocate(513) >= 0);
  CHECK(a.allocated() == 512 + 512 + 1024);
  CHECK(a.reserved() == 2 * MiB);  // all from one small segment
}

TEST_CASE("caching allocator: zero bytes give a handle without a block") {
  CachingAllocator a;
  const Handle handle = a.allocate(0);
  CHECK(handle != CachingAllocator::failed);
  a.free(handle);
  a.free(CachingAllocator::failed);
  CHECK(a.allocated() == 0);
  CHECK(a.reserved() == 0);
}

TEST_CASE("caching allocator: segments are 2 MiB, 20 MiB, or the request in steps of 2 MiB") {
  CHECK(reserved_for(1) == 2 * MiB);
  CHECK(reserved_for(MiB) == 2 * MiB);
  CHECK(reserved_for(MiB + 1) == 20 * MiB);         // 1 MiB + 512 rounded: large
  CHECK(reserved_for(10 * MiB - 512) == 20 * MiB);  // the last that shares a segment
  CHECK(reserved_for(10 * MiB - 511) == 10 * MiB);  // rounds to 10 MiB
  CHECK(reserved_for(10 * MiB) == 10 * MiB);
  CHECK(reserved_for(10 * MiB + 1) == 12 * MiB);
  CHECK(reserved_for(400 * MiB - 1) == 400 * MiB);
}

TEST_CASE("caching allocator: small and large requests do not share a segment") {
  CachingAllocator a;
  CHECK(a.allocate(2 * MiB) >= 0);  // leaves 18 MiB free
  CHECK(a.allocate(MiB) >= 0);
  CHECK(a.reserved() == 20 * MiB + 2 * MiB);
  CHECK(a.segments() == 2);
}

TEST_CASE("caching allocator: a small block is split if 512 bytes remain") {
  CachingAllocator a;
  CHECK(a.allocate(MiB) >= 0);
  CHECK(a.allocate(MiB - 512) >= 0);
  CHECK(a.inactive_split() == 512);
  CHECK(a.allocate(512) >= 0);
  CHECK(a.inactive_split() == 0);
  CHECK(a.allocated() == 2 * MiB);
  CHECK(a.segments() == 1);
}

TEST_CASE("caching allocator: a large block is split if more than 1 MiB remains") {
  CachingAllocator whole;
  CHECK(whole.allocate(11 * MiB) >= 0);  // of 12 MiB: 1 MiB remains
  CHECK(whole.allocated() == 12 * MiB);
  CHECK(whole.inactive_split() == 0);

  CachingAllocator split;
  CHECK(split.allocate(11 * MiB - 512) >= 0);  // 1 MiB + 512 remain
  CHECK(split.allocated() == 11 * MiB - 512);
  CHECK(split.inactive_split() == MiB + 512);
}

TEST_CASE(
    "caching allocator: the smallest block that suffices is used again, the lowest of equals") {
  CachingAllocator a;
  const Handle big = a.allocate(30 * MiB), low = a.allocate(14 * MiB), high = a.allocate(14 * MiB),
               tight = a.allocate(12 * MiB);
  const std::int64_t low_address = block_of(a, low).address;
  const std::int64_t tight_address = block_of(a, tight).address;
  for (Handle handle : {big, high, low, tight}) a.free(handle);
  CHECK(a.reserved() == (30 + 14 + 14 + 12) * MiB);
  CHECK(block_of(a, a.allocate(12 * MiB)).address == tight_address);
  CHECK(block_of(a, a.allocate(12 * MiB)).address == low_address);
  CHECK(a.reserved() == (30 + 14 + 14 + 12) * MiB);
}

TEST_CASE("caching allocator: a freed block merges with both neighbours") {
  CachingAllocator a;
  const Handle first = a.allocate(512 * KiB), middle = a.allocate(512 * KiB),
               last = a.allocate(512 * KiB);
  CHECK(a.inactive_split() == 512 * KiB);  // the end of the 2 MiB
  a.free(first);
  CHECK(a.snapshot().size() == 4);
  CHECK(a.inactive_split() == 1024 * KiB);
  a.free(last);  // with the end
  CHECK(a.snapshot().size() == 3);
  CHECK(a.inactive_split() == 1536 * KiB);
  a.free(middle);  // with both
  CHECK(a.snapshot().size() == 1);
  CHECK(a.inactive_split() == 0);  // the segment is whole
  CHECK(a.allocated() == 0);
}

TEST_CASE("caching allocator: streams do not share free blocks") {
  CachingAllocator a;
  a.free(a.allocate(12 * MiB, 0));
  const Handle other = a.allocate(12 * MiB, 1);
  CHECK(a.reserved() == 2 * 12 * MiB);
  a.free(other);
  CHECK(a.allocate(12 * MiB, 0) >= 0);
  CHECK(a.allocate(12 * MiB, 1) >= 0);
  CHECK(a.reserved() == 2 * 12 * MiB);
}

TEST_CASE("caching allocator: reserved memory shrinks only when the cache is emptied") {
  CachingAllocator a;
  const Handle kept = a.allocate(2 * MiB), freed = a.allocate(40 * MiB);
  a.free(freed);
  CHECK(a.reserved() == 20 * MiB + 40 * MiB);
  a.empty_cache();
  CHECK(a.reserved() == 20 * MiB);  // 18 MiB of it free, but of a segment in use
  CHECK(a.inactive_split() == 18 * MiB);
  a.free(kept);
  a.empty_cache();
  CHECK(a.reserved() == 0);
  CHECK(a.segments() == 0);
}

TEST_CASE("caching allocator: peaks are kept until they are reset") {
  CachingAllocator a;
  const Handle first = a.allocate(16 * MiB);
  const Handle second = a.allocate(32 * MiB);
  a.free(second);
  CHECK(a.peak_allocated() == 48 * MiB);
  a.empty_cache();
  CHECK(a.peak_reserved() == 48 * MiB);
  a.reset_peaks();
  CHECK(a.peak_allocated() == 16 * MiB);
  CHECK(a.peak_reserved() == 16 * MiB);
  a.free(first);
}

TEST_CASE("caching allocator: what was released is asked for again, the lowest addresses first") {
  CachingAllocator a;
  const Handle low = a.allocate(20 * MiB), middle = a.allocate(40 * MiB);
  const Handle high = a.allocate(20 * MiB);
  CHECK(a.address(high) == 60 * MiB);
  a.free(low);
  a.empty_cache();
  const Handle again = a.allocate(12 * MiB);
  CHECK(a.address(again) == 0);
  // Of two free blocks of 20 MiB the one that was made later is the lower one.
  a.free(middle);
  a.empty_cache();
  const Handle lower = a.allocate(20 * MiB);
  CHECK(a.address(lower) == 12 * MiB);
  a.free(high);
  a.free(lower);
  CHECK(a.address(a.allocate(20 * MiB)) == 12 * MiB);
}

TEST_CASE("caching allocator: over the limit, whole free segments are released and it retries") {
  CachingAllocator a({false, 60 * MiB});
  const Handle first = a.allocate(20 * MiB), second = a.allocate(20 * MiB);
  const Handle part = a.allocate(4 * MiB);  // of 20 MiB
  CHECK(a.reserved() == 60 * MiB);
  a.free(first);
  CHECK(a.allocate(40 * MiB) == CachingAllocator::failed);  // 40 + 40 > 60
  CHECK(a.reserved() == 40 * MiB);                          // the retry released 20 all the same
  a.free(second);
  CHECK(a.allocate(40 * MiB) >= 0);  // 20 + 40
  CHECK(a.reserved() == 60 * MiB);
  CHECK(a.segments() == 2);
  CHECK(a.peak_reserved() == 60 * MiB);
  CHECK(a.allocate(16 * MiB) >= 0);  // the rest of the segment that `part` is in needs none
  a.free(part);
}

TEST_CASE("expandable segments: one range grows by 20 MiB, its free end is a part of the next") {
  CachingAllocator a({true, no_limit});
  CHECK(a.allocate(3 * MiB) >= 0);
  CHECK(a.reserved() == 20 * MiB);
  CHECK(a.allocate(18 * MiB) >= 0);  // 17 MiB are free: 1 MiB more, in a granule
  CHECK(a.reserved() == 40 * MiB);
  CHECK(a.allocate(50 * MiB) >= 0);  // 19 MiB are free: 31 MiB more, in two
  CHECK(a.reserved() == 80 * MiB);
  CHECK(a.allocated() == (3 + 18 + 50) * MiB);
  CHECK(a.segments() == 1);
  CHECK(a.inactive_split() == 0);  // PyTorch counts none in expandable segments
  CHECK(a.allocate(MiB) >= 0);
  CHECK(a.allocate(MiB) >= 0);
  CHECK(a.allocate(512) >= 0);
  CHECK(a.reserved() == 80 * MiB + 2 * 2 * MiB);  // small ones by 2 MiB
  CHECK(a.segments() == 2);
}

TEST_CASE("expandable segments: a large block is split if 512 bytes remain") {
  CachingAllocator a({true, no_limit});
  CHECK(a.allocate(20 * MiB - 512) >= 0);
  CHECK(a.allocated() == 20 * MiB - 512);
}

TEST_CASE("expandable segments: a block that cannot grow goes before the end of the range") {
  CachingAllocator a({true, no_limit});
  const Handle hole = a.allocate(14 * MiB);
  const std::int64_t hole_address = block_of(a, hole).address;
  CHECK(a.allocate(2 * MiB) >= 0);
  a.free(hole);  // free: 14 MiB, and 4 MiB at the end
  // the end is the better fit, but it counts as all that the range could grow to
  CHECK(block_of(a, a.allocate(4 * MiB)).address == hole_address);
}

TEST_CASE(
    "expandable segments: emptying the cache unmaps whole free granules, to be mapped again") {
  CachingAllocator a({true, no_limit});
  const Handle first = a.allocate(30 * MiB);
  const std::int64_t begin = block_of(a, first).address;
  const Handle second = a.allocate(2 * MiB);  // at 30 MiB, of 40
  a.free(first);
  CHECK(a.reserved() == 40 * MiB);
  a.empty_cache();
  CHECK(a.reserved() == 20 * MiB);  // the second granule has a block in use
  // free are 10 and 8 MiB: the first granule is mapped again, and joins the 10
  const Handle third = a.allocate(12 * MiB);
  CHECK(block_of(a, third).address == begin);
  CHECK(a.reserved() == 40 * MiB);
  CHECK(a.allocate(18 * MiB) >= 0);  // 20 - 12 + 10
  CHECK(a.reserved() == 40 * MiB);
  CHECK(a.segments() == 1);
  a.free(second);
  CHECK(a.allocated() == (12 + 18) * MiB);
}

TEST_CASE("expandable segments: over the limit, a stream gets the granules of another") {
  CachingAllocator a({true, 60 * MiB});
  const Handle first = a.allocate(45 * MiB, 0);
  const Handle second = a.allocate(5 * MiB, 0);
  a.free(first);
  CHECK(a.reserved() == 60 * MiB);
  CHECK(a.allocate(40 * MiB, 1) >= 0);  // granules 1 and 2 of stream 0 went
  CHECK(a.reserved() == 60 * MiB);
  CHECK(a.segments() == 2);
  CHECK(a.allocate(30 * MiB, 1) == CachingAllocator::failed);
  a.free(second);
  CHECK(a.allocate(20 * MiB, 1) >= 0);
  CHECK(a.reserved() == 60 * MiB);
  CHECK(a.segments() == 1);  // nothing of stream 0 is mapped
}

TEST_CASE("caching allocator: blocks of 2 TiB and more are no special case") {
  constexpr std::int64_t TiB = MiB * MiB;
  for (const bool expandable : {false, true}) {
    CachingAllocator a({expandable, no_limit});
    const Handle first = a.allocate(3 * TiB), second = a.allocate(2 * TiB);
    const std::int64_t reserved = a.reserved();
    a.free(first);
    a.free(second);
    CHECK(a.allocate(5 * TiB / 2) >= 0);
    CHECK(a.reserved() == reserved);
    CHECK(a.allocated() == 5 * TiB / 2);
  }
}

TEST_CASE("caching allocator: ten thousand random steps are those of the oracle") {
  for (unsigned seed = 1; seed <= 4; ++seed)
    CHECK(walk_beside_the_oracle({false, no_limit}, seed, 2500) == 0);
  for (unsigned seed = 1; seed <= 4; ++seed)
    CHECK(walk_beside_the_oracle({false, 160 * MiB}, seed, 2500) > 0);
}

TEST_CASE("expandable segments: ten thousand random steps are those of the oracle") {
  for (unsigned seed = 1; seed <= 4; ++seed)
    CHECK(walk_beside_the_oracle({true, no_limit}, seed, 2500) == 0);
  for (unsigned seed = 1; seed <= 4; ++seed)
    CHECK(walk_beside_the_oracle({true, 160 * MiB}, seed, 2500) > 0);
}

}  // namespace ac_advisor::test
