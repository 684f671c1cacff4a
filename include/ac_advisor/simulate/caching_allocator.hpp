#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ac_advisor::simulate {

struct AllocatorOptions {
  bool expandable_segments = false;
  std::int64_t limit_bytes = 0;  ///< reserved bytes at most; 0: no limit
};

/// A replica of PyTorch 2.11's CUDA caching allocator (c10/cuda/CUDACachingAllocator.cpp): rounding
/// to 512 B, a small and a large pool a stream, best fit, splitting, merging. Bytes throughout. A
/// segment has the lowest addresses that are free.
/// Not modelled: record_stream, graph pools, max_split_size, garbage collection, and the end of an
/// expandable segment's range of addresses (9/8 of the device's memory there, 10 TiB here).
class CachingAllocator {
 public:
  using Handle = std::int32_t;
  static constexpr Handle failed = -1;  ///< out of memory, after cached segments were released
  static constexpr Handle empty = -3;   ///< a request of zero bytes: no block

  explicit CachingAllocator(AllocatorOptions options = {}) : options_(options) {}

  [[nodiscard]] Handle allocate(std::int64_t bytes, int stream = 0);
  void free(Handle handle);  ///< `failed` and `empty` are ignored
  /// Returns what is free to the device: whole segments, or whole granules of expandable ones.
  void empty_cache();

  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  [[nodiscard]] std::int64_t peak_allocated() const { return peak_allocated_; }
  [[nodiscard]] std::int64_t peak_reserved() const { return peak_reserved_; }
  /// Bytes of free blocks that are a part of a segment in use; none in expandable segments, as in
  /// PyTorch's `inactive_split_bytes`.
  [[nodiscard]] std::int64_t inactive_split() const;
  /// An expandable segment counts once if any of it is mapped (in PyTorch's own count it does not).
  [[nodiscard]] std::int64_t segments() const { return segments_; }
  void reset_peaks();
  /// Times that it had to release what it had cached and ask the device again
  /// (`num_alloc_retries`), and the segments that it gave back doing so.
  [[nodiscard]] std::int64_t retries() const { return retries_; }
  [[nodiscard]] std::int64_t released_segments() const { return released_segments_; }

  /// A block of a segment; a segment is known by the address where it begins.
  struct BlockInfo {
    std::int64_t segment = 0, address = 0, size = 0;
    int stream = 0;
    bool small = false, used = false;
    Handle handle = -1;
  };
  [[nodiscard]] std::int64_t address(Handle handle) const { return at(handle).address; }
  /// Bytes of the block that a request got; 0 for a handle without one.
  [[nodiscard]] std::int64_t size(Handle handle) const { return handle < 0 ? 0 : at(handle).size; }
  /// Every block that has memory, segment by segment, by address in each.
  [[nodiscard]] std::vector<BlockInfo> snapshot() const;

 private:
  struct Block {
    std::int64_t address = 0, size = 0;
    Handle previous = -1, next = -1;  ///< neighbours in the segment
    std::int16_t pool = 0;
    bool used = false;
    bool mapped = true;  ///< false: addresses of an expandable segment without memory
  };
  /// Eight bytes, for a list that is shifted at every insertion.
  struct Free {
    std::uint32_t units = 0;  ///< of 512 bytes
    Handle block = -1;
  };
  struct Pool {
    int stream = 0;
    bool small = false;
    std::vector<Free> free;        ///< mapped, by (size, address)
    std::vector<Handle> unmapped;  ///< by address
  };

  [[nodiscard]] Block& at(Handle handle) { return blocks_[static_cast<std::size_t>(handle)]; }
  [[nodiscard]] const Block& at(Handle handle) const {
    return blocks_[static_cast<std::size_t>(handle)];
  }
  [[nodiscard]] Pool& pool_of(const Block& b) { return pools_[static_cast<std::size_t>(b.pool)]; }
  [[nodiscard]] std::int16_t pool_index(int stream, bool small);
  [[nodiscard]] bool is_free(Handle handle, bool mapped) const;
  [[nodiscard]] Handle new_block(const Block& block);
  void recycle(Handle handle);
  [[nodiscard]] Handle cut(Handle handle, std::int64_t size);
  void absorb_next(Handle handle);

  using Entry = std::vector<Free>::iterator;
  [[nodiscard]] Entry position(Entry first, Entry last, const Block& block);
  [[nodiscard]] Entry position(const Block& block);
  [[nodiscard]] Entry fit(Pool& pool, std::int64_t size);
  [[nodiscard]] std::int64_t expandable_size(Handle handle) const;
  void insert(Handle handle);
  void move(Entry from, Handle handle);
  Handle put(Handle handle);
  void insert_unmapped(Handle handle);
  void erase_unmapped(Handle handle);

  [[nodiscard]] bool reserve(std::int64_t bytes);
  [[nodiscard]] std::int64_t take_addresses(std::int64_t bytes);
  void give_addresses(std::int64_t address, std::int64_t bytes);
  [[nodiscard]] Handle grow(std::int16_t pool, std::int64_t size);
  [[nodiscard]] Handle expand(std::int16_t pool, std::int64_t size);
  [[nodiscard]] Handle expandable_block(std::int16_t pool, std::int64_t size);
  [[nodiscard]] Handle map(Handle handle, std::int64_t size);
  void unmap(Handle handle);

  AllocatorOptions options_;
  std::vector<Block> blocks_;
  Handle recycled_ = -1;  ///< first entry of blocks_ not in use, the others by `next`
  std::vector<Pool> pools_;
  std::map<std::int64_t, std::int64_t> gaps_;  ///< bytes, by address: segments that were given back
  std::int64_t next_address_ = 0;              ///< above all of them
  std::int64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::int64_t segments_ = 0;
  std::int64_t retries_ = 0, released_segments_ = 0;
};

}  // namespace ac_advisor::simulate
