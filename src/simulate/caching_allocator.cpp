#include "ac_advisor/simulate/caching_allocator.hpp"

#include <algorithm>
#include <limits>

namespace ac_advisor::simulate {
namespace {

// c10/cuda/CUDACachingAllocator.cpp, v2.11
constexpr std::int64_t min_block = 512, small_size = 1 << 20, small_buffer = 2 << 20,
                       large_buffer = 20 << 20, min_large_alloc = 10 << 20, round_large = 2 << 20;

std::int64_t round_to(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Bytes of the segment that is made for a rounded request.
std::int64_t segment_size(std::int64_t size) {
  if (size <= small_size) return small_buffer;
  return size < min_large_alloc ? large_buffer : round_to(size, round_large);
}

/// Larger blocks than 2 TiB compare by address alone.
std::uint32_t units_of(std::int64_t size) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(size / min_block, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

std::int16_t CachingAllocator::pool_of(int stream, bool small) {
  for (std::size_t i = 0; i < pools_.size(); ++i)
    if (pools_[i].stream == stream && pools_[i].small == small) return static_cast<std::int16_t>(i);
  pools_.push_back({stream, small, {}, -1});
  return static_cast<std::int16_t>(pools_.size() - 1);
}

CachingAllocator::Handle CachingAllocator::new_block() {
  if (unused_.empty()) {
    blocks_.emplace_back();
    return static_cast<Handle>(blocks_.size() - 1);
  }
  const Handle handle = unused_.back();
  unused_.pop_back();
  blocks_[static_cast<std::size_t>(handle)] = {};
  return handle;
}

/// Where a block of this size and address is, or would be: by size, then by address.
std::vector<CachingAllocator::Free>::iterator CachingAllocator::position(Pool& pool,
                                                                         const Block& block) {
  const std::uint32_t units = units_of(block.size);
  auto at = std::lower_bound(pool.free.begin(), pool.free.end(), units,
                             [](const Free& f, std::uint32_t u) { return f.units < u; });
  while (at != pool.free.end() && at->units == units &&
         blocks_[static_cast<std::size_t>(at->block)].address < block.address)
    ++at;
  return at;
}

void CachingAllocator::insert(Handle handle) {
  const Block& b = blocks_[static_cast<std::size_t>(handle)];
  Pool& pool = pools_[static_cast<std::size_t>(b.pool)];
  pool.free.insert(position(pool, b), {units_of(b.size), handle});
}

void CachingAllocator::remove(Handle handle) {
  const Block& b = blocks_[static_cast<std::size_t>(handle)];
  Pool& pool = pools_[static_cast<std::size_t>(b.pool)];
  pool.free.erase(position(pool, b));
}

CachingAllocator::Handle CachingAllocator::take(Pool& pool, std::int64_t size) {
  const auto at = std::lower_bound(pool.free.begin(), pool.free.end(), units_of(size),
                                   [](const Free& f, std::uint32_t u) { return f.units < u; });
  if (at == pool.free.end()) return -1;
  const Handle handle = at->block;
  pool.free.erase(at);
  return handle;
}

bool CachingAllocator::make_room(std::int64_t bytes) {
  if (options_.limit_bytes == 0 || reserved_ + bytes <= options_.limit_bytes) return true;
  // release_cached_blocks: whole free segments go back to the device
  for (Pool& pool : pools_)
    std::erase_if(pool.free, [&](const Free& f) {
      const Block& b = blocks_[static_cast<std::size_t>(f.block)];
      if (b.previous != -1 || b.next != -1) return false;
      reserved_ -= b.size;
      --segments_;
      if (pool.tail == f.block) pool.tail = -1;
      unused_.push_back(f.block);
      return true;
    });
  return reserved_ + bytes <= options_.limit_bytes;
}

CachingAllocator::Handle CachingAllocator::grow(std::int16_t pool, std::int64_t size) {
  const std::int64_t bytes = segment_size(size);
  if (!make_room(bytes)) return failed;
  const Handle handle = new_block();
  Block& b = blocks_[static_cast<std::size_t>(handle)];
  b.address = next_address_;
  b.size = bytes;
  b.pool = pool;
  next_address_ += bytes + round_large;  // never adjacent to another segment
  reserved_ += bytes;
  ++segments_;
  return handle;
}

/// One virtual range a pool, mapped in whole granules at its end as it is needed.
CachingAllocator::Handle CachingAllocator::expand(std::int16_t pool_index, std::int64_t size) {
  Pool& pool = pools_[static_cast<std::size_t>(pool_index)];
  const std::int64_t granule = pool.small ? small_buffer : large_buffer;
  Handle tail = pool.tail;
  const bool tail_free = tail != -1 && !blocks_[static_cast<std::size_t>(tail)].used;
  const std::int64_t have = tail_free ? blocks_[static_cast<std::size_t>(tail)].size : 0;
  const std::int64_t bytes = round_to(size - have, granule);
  if (!make_room(bytes)) return failed;
  tail = pool.tail;  // making room may have released it
  reserved_ += bytes;
  if (tail != -1 && !blocks_[static_cast<std::size_t>(tail)].used) {
    remove(tail);
    blocks_[static_cast<std::size_t>(tail)].size += bytes;
    return tail;
  }
  const Handle handle = new_block();
  Block& b = blocks_[static_cast<std::size_t>(handle)];
  b.size = bytes;
  b.pool = pool_index;
  b.previous = tail;
  if (tail == -1) {
    b.address = next_address_;
    next_address_ += std::int64_t{1} << 44;  // the reserved virtual range
    ++segments_;
  } else {
    Block& last = blocks_[static_cast<std::size_t>(tail)];
    b.address = last.address + last.size;
    last.next = handle;
  }
  pool.tail = handle;
  return handle;
}

void CachingAllocator::split(Handle handle, std::int64_t size) {
  const Block whole = blocks_[static_cast<std::size_t>(handle)];
  Pool& pool = pools_[static_cast<std::size_t>(whole.pool)];
  const std::int64_t remaining = whole.size - size;
  const bool worth =
      pool.small || options_.expandable_segments ? remaining >= min_block : remaining > small_size;
  if (!worth) return;
  const Handle rest = new_block();
  Block& first = blocks_[static_cast<std::size_t>(handle)];
  Block& second = blocks_[static_cast<std::size_t>(rest)];
  second = {whole.address + size, remaining, handle, whole.next, whole.pool, false};
  first.size = size;
  first.next = rest;
  if (whole.next != -1) blocks_[static_cast<std::size_t>(whole.next)].previous = rest;
  if (pool.tail == handle) pool.tail = rest;
  insert(rest);
}

CachingAllocator::Handle CachingAllocator::allocate(std::int64_t bytes, int stream) {
  if (bytes == 0) return empty;
  const std::int64_t size = round_to(bytes, min_block);
  const std::int16_t pool = pool_of(stream, size <= small_size);
  Handle handle = take(pools_[static_cast<std::size_t>(pool)], size);
  if (handle == -1) handle = options_.expandable_segments ? expand(pool, size) : grow(pool, size);
  if (handle == failed) return failed;
  split(handle, size);
  Block& b = blocks_[static_cast<std::size_t>(handle)];
  b.used = true;
  allocated_ += b.size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return handle;
}

CachingAllocator::Handle CachingAllocator::merge(Handle left, Handle right) {
  Block& a = blocks_[static_cast<std::size_t>(left)];
  const Block& b = blocks_[static_cast<std::size_t>(right)];
  a.size += b.size;
  a.next = b.next;
  if (b.next != -1) blocks_[static_cast<std::size_t>(b.next)].previous = left;
  Pool& pool = pools_[static_cast<std::size_t>(a.pool)];
  if (pool.tail == right) pool.tail = left;
  unused_.push_back(right);
  return left;
}

void CachingAllocator::free(Handle handle) {
  if (handle < 0) return;
  Block& b = blocks_[static_cast<std::size_t>(handle)];
  b.used = false;
  allocated_ -= b.size;
  const Handle previous = b.previous, next = b.next;
  if (next != -1 && !blocks_[static_cast<std::size_t>(next)].used) {
    remove(next);
    handle = merge(handle, next);
  }
  if (previous != -1 && !blocks_[static_cast<std::size_t>(previous)].used) {
    remove(previous);
    handle = merge(previous, handle);
  }
  insert(handle);
}

std::int64_t CachingAllocator::inactive_split() const {
  std::int64_t bytes = 0;
  for (const Pool& pool : pools_)
    for (const Free& f : pool.free) {
      const Block& b = blocks_[static_cast<std::size_t>(f.block)];
      if (b.previous != -1 || b.next != -1) bytes += b.size;
    }
  return bytes;
}

void CachingAllocator::reset_peaks() {
  peak_allocated_ = allocated_;
  peak_reserved_ = reserved_;
}

}  // namespace ac_advisor::simulate
