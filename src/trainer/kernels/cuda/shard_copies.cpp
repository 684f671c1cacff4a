// Copies into and out of FSDP2's buffers, all parameters and ranks of a unit in one launch; layouts
// as in kernels/aten/collectives.cpp.
#include <vector>

#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cuda/cuda.hpp"
#include "trainer/kernels/cuda/torch/torch.hpp"

namespace ac_advisor::trainer::cuda {
namespace {

/// A tensor beside its places in a buffer: rank after rank, of each as many dim-0 rows.
struct Places {
  at::Tensor whole;
  std::int64_t part = 0;   ///< elements of one rank's rows
  std::int64_t start = 0;  ///< of the first rank's in the buffer
};

template <class Take>
std::int64_t each_place(std::size_t count, std::int64_t ranks, Take tensor,
                        std::vector<Places>& places) {
  std::int64_t start = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor whole = tensor(i);
    const std::int64_t row = whole.numel() / whole.size(0),
                       part = (whole.size(0) + ranks - 1) / ranks * row;
    places.push_back({whole, part, start});
    start += part;
  }
  return start;
}

char* at_element(const at::Tensor& x, std::int64_t element) {
  return static_cast<char*>(x.mutable_data_ptr()) +
         element * static_cast<std::int64_t>(x.element_size());
}

/// The raw kernel's two types, densely.
bool taken(const at::Tensor& x) {
  return x.is_contiguous() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}
bool all_taken(const std::vector<Places>& places, const at::Tensor& buffer) {
  for (const Places& p : places)
    if (!taken(p.whole)) return false;
  return taken(buffer);
}

void copy(const std::vector<device::ShardCopy>& list) {
  device::copy_shards(list.data(), static_cast<std::int64_t>(list.size()), stream());
}

}  // namespace

void all_gather_copy_in(const Call& c) {
  const at::Tensor buffer = c.out();
  const Group group = c.executor().mesh().sharded();
  std::int64_t start = c.executor().mesh().shard() * (buffer.numel() / group.size);
  std::vector<Places> shards;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    shards.push_back({c.in(i), c.in(i).numel(), start});
    start += c.in(i).numel();
  }
  if (!all_taken(shards, buffer)) return aten::all_gather_copy_in(c);
  std::vector<device::ShardCopy> list;
  for (const Places& p : shards)
    list.push_back({.from_type = element(p.whole),
                    .to_type = element(buffer),
                    .from = p.whole.const_data_ptr(),
                    .to = at_element(buffer, p.start),
                    .elements = p.part,
                    .part = p.part});
  copy(list);
}

void all_gather_copy_out(const Call& c) {
  const at::Tensor buffer = c.in(0);
  const std::int64_t ranks = c.executor().mesh().sharded().size;
  std::vector<Places> places;
  each_place(
      c.outputs(), ranks, [&](std::size_t i) { return c.out(i); }, places);
  if (!all_taken(places, buffer)) return aten::all_gather_copy_out(c);
  std::vector<device::ShardCopy> list;
  for (const Places& p : places)
    list.push_back({.from_type = element(buffer),
                    .to_type = element(p.whole),
                    .from = at_element(buffer, p.start),
                    .to = p.whole.mutable_data_ptr(),
                    .elements = p.whole.numel(),
                    .part = p.part,
                    .parts = ranks,
                    .from_stride = buffer.numel() / ranks,
                    .to_stride = p.part});
  copy(list);
}

void reduce_scatter_copy_in(const Call& c) {
  const at::Tensor buffer = c.out();
  const std::int64_t ranks = c.executor().mesh().sharded().size;
  std::vector<Places> places;
  each_place(
      c.inputs(), ranks, [&](std::size_t i) { return c.in(i); }, places);
  if (!all_taken(places, buffer)) return aten::reduce_scatter_copy_in(c);
  std::vector<device::ShardCopy> list;
  for (const Places& p : places)
    list.push_back({.from_type = element(p.whole),
                    .to_type = element(buffer),
                    .from = p.whole.const_data_ptr(),
                    .to = at_element(buffer, p.start),
                    .elements = p.whole.numel(),
                    .part = p.part,
                    .parts = ranks,
                    .from_stride = p.part,
                    .to_stride = buffer.numel() / ranks,
                    .pads = true});
  copy(list);
}

}  // namespace ac_advisor::trainer::cuda
