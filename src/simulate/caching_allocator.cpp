#include "ac_advisor/simulate/caching_allocator.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace ac_advisor::simulate {
namespace {

// c10/core/AllocatorConfig.h, v2.11; large_buffer is the default of large_segment_size_mb
constexpr std::int64_t min_block = 512, small_size = 1 << 20, small_buffer = 2 << 20,
                       large_buffer = 20 << 20, min_large_alloc = 10 << 20, round_large = 2 << 20;

/// Addresses of an expandable segment: a multiple of both granules, so that granules are aligned.
constexpr std::int64_t address_range = large_buffer << 19;

std::int64_t round_to(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// get_allocation_size: bytes of the segment that is made for a rounded request.
std::int64_t segment_size(std::int64_t size) {
  if (size <= small_size) return small_buffer;
  return size < min_large_alloc ? large_buffer : round_to(size, round_large);
}

/// Blocks of 2 TiB and more compare by address alone.
std::uint32_t units_of(std::int64_t size) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(size / min_block, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

// Blocks

std::int16_t CachingAllocator::pool_index(int stream, bool small) {
  for (std::size_t i = 0; i < pools_.size(); ++i)
    if (pools_[i].stream == stream && pools_[i].small == small) return static_cast<std::int16_t>(i);
  pools_.push_back({stream, small, {}, {}});
  return static_cast<std::int16_t>(pools_.size() - 1);
}

CachingAllocator::Handle CachingAllocator::new_block(const Block& block) {
  const Handle handle = recycled_;
  if (handle == -1) {
    blocks_.push_back(block);
    return static_cast<Handle>(blocks_.size() - 1);
  }
  recycled_ = at(handle).next;
  at(handle) = block;
  return handle;
}

void CachingAllocator::recycle(Handle handle) {
  at(handle).size = 0;
  at(handle).next = recycled_;
  recycled_ = handle;
}

bool CachingAllocator::is_free(Handle handle, bool mapped) const {
  return handle != -1 && !at(handle).used && at(handle).mapped == mapped;
}

/// Leaves `size` bytes in a block; the rest becomes the block after it, in no list as yet.
CachingAllocator::Handle CachingAllocator::cut(Handle handle, std::int64_t size) {
  Block rest = at(handle);
  rest.address += size;
  rest.size -= size;
  rest.previous = handle;
  rest.used = false;
  const Handle after = new_block(rest);
  if (rest.next != -1) at(rest.next).previous = after;
  at(handle).next = after;
  at(handle).size = size;
  return after;
}

void CachingAllocator::absorb_next(Handle handle) {
  Block& block = at(handle);
  const Handle after = block.next;
  block.size += at(after).size;
  block.next = at(after).next;
  if (block.next != -1) at(block.next).previous = handle;
  recycle(after);
}

// Lists of free blocks

/// Where a block of this size and address is, or would be: by size, then by address.
CachingAllocator::Entry CachingAllocator::position(Entry first, Entry last, const Block& block) {
  const std::uint32_t units = units_of(block.size);
  return std::partition_point(first, last, [&](const Free& f) {
    return f.units < units || (f.units == units && at(f.block).address < block.address);
  });
}

CachingAllocator::Entry CachingAllocator::position(const Block& block) {
  std::vector<Free>& free = pool_of(block).free;
  return position(free.begin(), free.end(), block);
}

/// What a free block could grow to, where unmapped addresses follow it.
std::int64_t CachingAllocator::expandable_size(Handle handle) const {
  const Block& block = at(handle);
  return block.size + (is_free(block.next, false) ? at(block.next).size : 0);
}

/// get_free_block: the smallest block that suffices, then the lowest. One that could grow counts as
/// what it could grow to, and gives way to the next in that order.
CachingAllocator::Entry CachingAllocator::fit(Pool& pool, std::int64_t size) {
  const Entry end = pool.free.end();
  Entry found = position(pool.free.begin(), end, {-1, size});
  while (found != end && at(found->block).size < size) ++found;  // 2 TiB and more only
  if (options_.expandable_segments && found != end)
    while (found + 1 != end && expandable_size(found[1].block) < expandable_size(found->block))
      ++found;
  return found;
}

void CachingAllocator::insert(Handle handle) {
  const Block& block = at(handle);
  pool_of(block).free.insert(position(block), {units_of(block.size), handle});
}

/// Gives an entry to a block, and moves it to where the size of that block wants it.
void CachingAllocator::move(Entry from, Handle handle) {
  const Block& block = at(handle);
  std::vector<Free>& free = pool_of(block).free;
  const Free entry{units_of(block.size), handle};
  if (entry.units < from->units) {
    const Entry to = position(free.begin(), from, block);
    std::move_backward(to, from, from + 1);
    *to = entry;
  } else if (entry.units > from->units) {
    const Entry to = position(from + 1, free.end(), block);
    *std::move(from + 1, to, from) = entry;
  } else {  // 2 TiB and more
    free.erase(from);
    insert(handle);
  }
}

/// free_block: merges a block that is in no list with its free neighbours, and lists the result.
CachingAllocator::Handle CachingAllocator::put(Handle handle) {
  const Handle previous = at(handle).previous, next = at(handle).next;
  const bool left = is_free(previous, true), right = is_free(next, true);
  if (!left && !right) {
    insert(handle);
    return handle;
  }
  if (left && right) pool_of(at(handle)).free.erase(position(at(next)));
  const Entry entry = position(at(left ? previous : next));
  if (right) absorb_next(handle);
  if (left) absorb_next(previous);
  move(entry, left ? previous : handle);
  return left ? previous : handle;
}

void CachingAllocator::insert_unmapped(Handle handle) {
  std::vector<Handle>& list = pool_of(at(handle)).unmapped;
  const auto before = [&](Handle h) { return at(h).address < at(handle).address; };
  list.insert(std::partition_point(list.begin(), list.end(), before), handle);
}

void CachingAllocator::erase_unmapped(Handle handle) {
  std::erase(pool_of(at(handle)).unmapped, handle);
}

// Memory of the device

bool CachingAllocator::reserve(std::int64_t bytes) {
  if (options_.limit_bytes != 0 && reserved_ + bytes > options_.limit_bytes) return false;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return true;
}

/// The lowest that no segment has, as the emulated device hands them out. It decides which of two
/// free blocks of a size is taken.
std::int64_t CachingAllocator::take_addresses(std::int64_t bytes) {
  const auto gap =
      std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& g) { return g.second >= bytes; });
  if (gap == gaps_.end()) return std::exchange(next_address_, next_address_ + bytes);
  const auto [address, room] = *gap;
  gaps_.erase(gap);
  if (room > bytes) gaps_.emplace(address + bytes, room - bytes);
  return address;
}

void CachingAllocator::give_addresses(std::int64_t address, std::int64_t bytes) {
  auto after = gaps_.upper_bound(address);
  if (after != gaps_.end() && address + bytes == after->first) {
    bytes += after->second;
    after = gaps_.erase(after);
  }
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  gaps_.emplace_hint(after, address, bytes);
}

/// A free block for the request, of a segment of its own.
CachingAllocator::Handle CachingAllocator::grow(std::int16_t pool, std::int64_t size) {
  const std::int64_t bytes = segment_size(size);
  if (!reserve(bytes)) return failed;
  ++segments_;
  return put(new_block({take_addresses(bytes), bytes, -1, -1, pool, false, true}));
}

/// find_expandable_block: the lowest unmapped addresses, with the free block before them, that have
/// the room.
CachingAllocator::Handle CachingAllocator::expandable_block(std::int16_t pool, std::int64_t size) {
  for (Handle found : pools_[static_cast<std::size_t>(pool)].unmapped) {
    if (is_free(at(found).previous, true)) found = at(found).previous;
    std::int64_t room = 0;
    for (Handle h = found; h != -1 && !at(h).used && room < size; h = at(h).next)
      room += at(h).size;
    if (room >= size) return found;
  }
  const Handle handle = new_block({next_address_, address_range, -1, -1, pool, false, false});
  next_address_ += address_range;
  insert_unmapped(handle);
  return handle;
}

/// try_allocate_expandable_block: maps granules until a free block has `size` bytes. What it mapped
/// before it failed stays mapped.
CachingAllocator::Handle CachingAllocator::expand(std::int16_t pool, std::int64_t size) {
  Handle handle = expandable_block(pool, size);
  if (!at(handle).mapped) handle = map(handle, std::min(size, at(handle).size));
  while (handle != failed && at(handle).size < size) {
    const Handle next = at(handle).next;
    handle = map(next, std::min(size - at(handle).size, at(next).size));
  }
  return handle;
}

/// Maps the granules of the first `size` bytes of an unmapped block. Returns the free block that
/// they are now in, merged with its neighbours, or `failed` with nothing changed.
CachingAllocator::Handle CachingAllocator::map(Handle handle, std::int64_t size) {
  const std::int64_t bytes =
      round_to(size, pool_of(at(handle)).small ? small_buffer : large_buffer);
  if (!reserve(bytes)) return failed;
  if (at(handle).previous == -1 && at(handle).next == -1) ++segments_;
  erase_unmapped(handle);
  if (bytes < at(handle).size) insert_unmapped(cut(handle, bytes));
  at(handle).mapped = true;
  return put(handle);
}

/// unmap_block: unmaps the whole granules inside a free block; the ends of it stay free.
void CachingAllocator::unmap(Handle handle) {
  const std::int64_t first = at(handle).address, last = first + at(handle).size;
  const std::int64_t granule = pool_of(at(handle)).small ? small_buffer : large_buffer;
  const std::int64_t begin = round_to(first, granule), end = last / granule * granule;
  if (begin >= end) return;
  pool_of(at(handle)).free.erase(position(at(handle)));
  if (begin > first) {
    const Handle front = handle;
    handle = cut(front, begin - first);
    insert(front);
  }
  if (end < last) insert(cut(handle, end - begin));
  at(handle).mapped = false;
  reserved_ -= end - begin;
  if (const Handle next = at(handle).next; is_free(next, false)) {
    erase_unmapped(next);
    absorb_next(handle);
  }
  if (const Handle previous = at(handle).previous; is_free(previous, false)) {
    erase_unmapped(previous);
    absorb_next(previous);
    handle = previous;
  }
  if (at(handle).previous == -1 && at(handle).next == -1) {  // the whole segment
    recycle(handle);
    --segments_;
  } else {
    insert_unmapped(handle);
  }
}

/// release_cached_blocks
void CachingAllocator::empty_cache() {
  for (Pool& pool : pools_) {
    if (options_.expandable_segments) {
      const std::vector<Free> cached = pool.free;  // a copy, since unmapping changes the list
      for (const Free& f : cached) unmap(f.block);
      continue;
    }
    std::erase_if(pool.free, [&](const Free& f) {
      const Block& block = at(f.block);
      if (block.previous != -1 || block.next != -1) return false;
      reserved_ -= block.size;
      --segments_;
      give_addresses(block.address, block.size);
      recycle(f.block);
      return true;
    });
  }
}

// Requests

CachingAllocator::Handle CachingAllocator::allocate(std::int64_t bytes, int stream) {
  if (bytes == 0) return empty;
  const std::int64_t size = round_to(bytes, min_block);
  const std::int16_t index = pool_index(stream, size <= small_size);
  Pool& pool = pools_[static_cast<std::size_t>(index)];
  Entry entry = fit(pool, size);
  if (entry == pool.free.end()) {
    const auto make = [&] {
      return options_.expandable_segments ? expand(index, size) : grow(index, size);
    };
    Handle made = make();
    if (made == failed) {  // malloc: release_cached_blocks, then alloc_block once more
      const std::int64_t before = segments_;
      empty_cache();
      released_segments_ += before - segments_;
      ++retries_;
      made = make();
    }
    if (made == failed) return failed;
    entry = position(at(made));
  }
  const Handle handle = entry->block;
  const std::int64_t rest = at(handle).size - size;
  const bool fine = pool.small || options_.expandable_segments;  // should_split
  if (fine ? rest >= min_block : rest > small_size)
    move(entry, cut(handle, size));
  else
    pool.free.erase(entry);
  at(handle).used = true;
  allocated_ += at(handle).size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return handle;
}

void CachingAllocator::free(Handle handle) {
  if (handle < 0) return;
  at(handle).used = false;
  allocated_ -= at(handle).size;
  put(handle);
}

// Figures

std::int64_t CachingAllocator::inactive_split() const {
  std::int64_t bytes = 0;
  if (options_.expandable_segments) return bytes;
  for (const Pool& pool : pools_)
    for (const Free& f : pool.free)
      if (const Block& b = at(f.block); b.previous != -1 || b.next != -1) bytes += b.size;
  return bytes;
}

void CachingAllocator::reset_peaks() {
  peak_allocated_ = allocated_;
  peak_reserved_ = reserved_;
}

std::vector<CachingAllocator::BlockInfo> CachingAllocator::snapshot() const {
  std::vector<BlockInfo> found;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& head = blocks_[i];
    if (head.size == 0 || head.previous != -1) continue;  // recycled, or not a segment's first
    const Pool& pool = pools_[static_cast<std::size_t>(head.pool)];
    for (Handle h = static_cast<Handle>(i); h != -1; h = at(h).next)
      if (const Block& b = at(h); b.mapped)
        found.push_back({head.address, b.address, b.size, pool.stream, pool.small, b.used, h});
  }
  return found;
}

}  // namespace ac_advisor::simulate
