#pragma once

#include <algorithm>

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

/// Tensors of one launch, in its arguments, as AdamW's.
constexpr int shard_copy_tensors = 512;
constexpr int shard_copy_chunk = 1 << 15;  ///< elements of one block
constexpr int shard_copy_threads = 256;

struct ShardCopyBatch {
  const void* from[shard_copy_tensors];
  void* to[shard_copy_tensors];
  std::int64_t elements[shard_copy_tensors], part[shard_copy_tensors];
  std::int64_t from_stride[shard_copy_tensors], to_stride[shard_copy_tensors];
  std::uint32_t first_chunk[shard_copy_tensors + 1];  ///< of tensor i; the last: how many there are
  Element from_type[shard_copy_tensors], to_type[shard_copy_tensors];
  bool pads[shard_copy_tensors];
  int count;
};
static_assert(sizeof(ShardCopyBatch) <= 32764);

AC_ADVISOR_DEVICE_AND_HOST std::uint32_t chunks_of_part(std::int64_t part) {
  return static_cast<std::uint32_t>((part + shard_copy_chunk - 1) / shard_copy_chunk);
}

inline void fill(ShardCopyBatch& batch, const ShardCopy* copies, int count) {
  std::uint32_t chunks = 0;
  for (int i = 0; i < count; ++i) {
    const ShardCopy& c = copies[i];
    batch.from[i] = c.from;
    batch.to[i] = c.to;
    batch.elements[i] = c.elements;
    batch.part[i] = c.part;
    batch.from_stride[i] = c.from_stride;
    batch.to_stride[i] = c.to_stride;
    batch.from_type[i] = c.from_type;
    batch.to_type[i] = c.to_type;
    batch.pads[i] = c.pads;
    batch.first_chunk[i] = chunks;
    chunks += chunks_of_part(c.part) * static_cast<std::uint32_t>(c.parts);
  }
  batch.first_chunk[count] = chunks;
  batch.count = count;
}

/// `n` elements, by 16 bytes where both sides lie so, then what is left.
template <class T, int N, class Block>
AC_ADVISOR_DEVICE void copy_alike(Block& block, const T* from, T* to, int n) {
  const bool wide = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 &&
                    reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  const int accesses = wide ? n / N : 0;
  block.part(0, 1, accesses, [&](int i) { store_raw(to + i * N, load_raw<Words>(from + i * N)); });
  block.part(0, 1, n - accesses * N, [&](int i) { to[accesses * N + i] = from[accesses * N + i]; });
}

template <class From, class To, class Block>
AC_ADVISOR_DEVICE void copy_chunk(Block& block, const ShardCopyBatch& batch, int tensor,
                                  std::int64_t from_at, std::int64_t to_at, int n, int padded) {
  const From* from = static_cast<const From*>(batch.from[tensor]) + from_at;
  To* to = static_cast<To*>(batch.to[tensor]) + to_at;
  if constexpr (std::is_same_v<From, To>)
    copy_alike<From, 16 / static_cast<int>(sizeof(From))>(block, from, to, n);
  else
    block.part(0, 1, n, [&](int i) { assign(to[i], widen(from[i])); });
  block.part(0, 1, padded - n, [&](int i) { assign(to[n + i], 0.0F); });
}

template <class Block>
AC_ADVISOR_DEVICE void shard_copy(Block& block, const ShardCopyBatch& batch, std::uint32_t chunk) {
  int tensor = 0, end = batch.count;  // the last tensor that begins at or before the chunk
  while (end - tensor > 1) {
    const int middle = (tensor + end) / 2;
    if (batch.first_chunk[middle] <= chunk)
      tensor = middle;
    else
      end = middle;
  }
  const std::uint32_t of_part = chunks_of_part(batch.part[tensor]),
                      local = chunk - batch.first_chunk[tensor];
  const auto part = static_cast<std::int64_t>(local / of_part);
  const std::int64_t start = static_cast<std::int64_t>(local % of_part) * shard_copy_chunk;
  const auto within = [&](std::int64_t left) {
    return static_cast<int>(left < 0 ? 0 : left < shard_copy_chunk ? left : shard_copy_chunk);
  };
  const int room = within(batch.part[tensor] - start),
            given = within(batch.elements[tensor] - part * batch.part[tensor] - start);
  const int n = given < room ? given : room, padded = batch.pads[tensor] ? room : n;
  const std::int64_t from_at = part * batch.from_stride[tensor] + start,
                     to_at = part * batch.to_stride[tensor] + start;
  const bool wide_from = batch.from_type[tensor] == Element::f32,
             wide_to = batch.to_type[tensor] == Element::f32;
  if (wide_from)
    wide_to ? copy_chunk<float, float>(block, batch, tensor, from_at, to_at, n, padded)
            : copy_chunk<float, Bf16>(block, batch, tensor, from_at, to_at, n, padded);
  else
    wide_to ? copy_chunk<Bf16, float>(block, batch, tensor, from_at, to_at, n, padded)
            : copy_chunk<Bf16, Bf16>(block, batch, tensor, from_at, to_at, n, padded);
}

}  // namespace ac_advisor::trainer::cuda::device
