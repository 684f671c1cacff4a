#pragma once

#include <cstdint>
#include <vector>

namespace ac_advisor::simulate {

struct AllocatorOptions {
  bool expandable_segments = false;
  std::int64_t limit_bytes = 0;  ///< reserved bytes at most; 0: no limit
};

/// A replica of PyTorch 2.11's CUDA caching allocator (c10/cuda/CUDACachingAllocator.cpp): rounding
/// to 512 B, a small and a large pool a stream, best fit, splitting, merging. Bytes throughout.
class CachingAllocator {
 public:
  using Handle = std::int32_t;
  static constexpr Handle failed = -1;  ///< out of memory, after cached segments were released
  static constexpr Handle empty = -3;   ///< a request of zero bytes: no block

  explicit CachingAllocator(AllocatorOptions options = {}) : options_(options) {}

  [[nodiscard]] Handle allocate(std::int64_t bytes, int stream = 0);
  void free(Handle handle);

  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  [[nodiscard]] std::int64_t peak_allocated() const { return peak_allocated_; }
  [[nodiscard]] std::int64_t peak_reserved() const { return peak_reserved_; }
  /// Bytes of free blocks that are a part of a segment in use.
  [[nodiscard]] std::int64_t inactive_split() const;
  [[nodiscard]] std::int64_t segments() const { return segments_; }
  void reset_peaks();

 private:
  struct Block {
    std::int64_t address = 0, size = 0;
    Handle previous = -1, next = -1;  ///< neighbours in the segment
    std::int16_t pool = 0;
    bool used = false;
  };
  /// Eight bytes, for a list that is shifted at every insertion.
  struct Free {
    std::uint32_t units = 0;  ///< of 512 bytes
    Handle block = -1;
  };
  struct Pool {
    int stream = 0;
    bool small = false;
    std::vector<Free> free;  ///< by (size, address)
    Handle tail = -1;        ///< last block of the expandable segment
  };

  [[nodiscard]] std::vector<Free>::iterator position(Pool& pool, const Block& block);
  std::int16_t pool_of(int stream, bool small);
  Handle take(Pool& pool, std::int64_t size);
  Handle grow(std::int16_t pool, std::int64_t size);
  Handle expand(std::int16_t pool, std::int64_t size);
  bool make_room(std::int64_t bytes);
  void split(Handle handle, std::int64_t size);
  void insert(Handle handle);
  void remove(Handle handle);
  Handle merge(Handle left, Handle right);
  Handle new_block();

  AllocatorOptions options_;
  std::vector<Block> blocks_;
  std::vector<Handle> unused_;  ///< recycled entries of blocks_
  std::vector<Pool> pools_;
  std::int64_t next_address_ = 0;
  std::int64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::int64_t segments_ = 0;
};

}  // namespace ac_advisor::simulate
