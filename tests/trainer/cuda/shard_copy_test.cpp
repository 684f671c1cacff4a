// Copies into and out of buffers of shards on the host's threads, against LibTorch's, part by part.
#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor::test {
namespace {

/// As an FSDP unit's: tensors of these rows, and a buffer that has a part of each, rank after rank.
struct Unit {
  std::vector<at::Tensor> wholes;
  std::vector<std::int64_t> starts, parts;
  std::int64_t of_rank = 0, ranks = 1;

  Unit(std::int64_t count, std::int64_t over, at::ScalarType type) : ranks(over) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t rows = 1 + i * 5 % 23, columns = i % 7 == 0 ? 3001 : 8;
      wholes.push_back(random({rows, columns}, type));
      starts.push_back(of_rank);
      parts.push_back((rows + ranks - 1) / ranks * columns);
      of_rank += parts.back();
    }
  }
  [[nodiscard]] at::Tensor place(const at::Tensor& buffer, std::size_t i, std::int64_t rank) const {
    return buffer.narrow(0, rank * of_rank + starts[i], parts[i]);
  }
  [[nodiscard]] at::Tensor rows(std::size_t i, std::int64_t rank) const {
    const std::int64_t all = wholes[i].numel(), begin = std::min(rank * parts[i], all);
    return wholes[i].view({-1}).narrow(0, begin, std::min(parts[i], all - begin));
  }
};

char* at_element(const at::Tensor& x, std::int64_t element) {
  return static_cast<char*>(x.data_ptr()) + element * static_cast<std::int64_t>(x.element_size());
}

void into_buffer(const Unit& unit, const at::Tensor& buffer) {
  std::vector<device::ShardCopy> list;
  for (std::size_t i = 0; i < unit.wholes.size(); ++i)
    list.push_back({.from_type = element(unit.wholes[i]),
                    .to_type = element(buffer),
                    .from = unit.wholes[i].data_ptr(),
                    .to = at_element(buffer, unit.starts[i]),
                    .elements = unit.wholes[i].numel(),
                    .part = unit.parts[i],
                    .parts = unit.ranks,
                    .from_stride = unit.parts[i],
                    .to_stride = unit.of_rank,
                    .pads = true});
  device::copy_shards(list.data(), static_cast<std::int64_t>(list.size()), nullptr);
}

void out_of_buffer(const Unit& unit, const at::Tensor& buffer) {
  std::vector<device::ShardCopy> list;
  for (std::size_t i = 0; i < unit.wholes.size(); ++i)
    list.push_back({.from_type = element(buffer),
                    .to_type = element(unit.wholes[i]),
                    .from = at_element(buffer, unit.starts[i]),
                    .to = unit.wholes[i].data_ptr(),
                    .elements = unit.wholes[i].numel(),
                    .part = unit.parts[i],
                    .parts = unit.ranks,
                    .from_stride = unit.of_rank,
                    .to_stride = unit.parts[i]});
  device::copy_shards(list.data(), static_cast<std::int64_t>(list.size()), nullptr);
}

}  // namespace

TEST_CASE(
    "device kernels: gradients go into a buffer of shards, padded with zeros, and are widened") {
  at::manual_seed(15);
  for (const at::ScalarType from : {at::kFloat, at::kBFloat16})
    for (const at::ScalarType to : {at::kFloat, at::kBFloat16})
      for (const std::int64_t ranks : {1, 2, 3, 64}) {
        CAPTURE(ranks);
        const Unit unit(from == to ? 40 : 600, ranks, from);  // 600 are two launches
        const at::Tensor buffer = at::full({ranks * unit.of_rank}, 7, to);
        into_buffer(unit, buffer);
        for (std::size_t i = 0; i < unit.wholes.size(); ++i)
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const at::Tensor wanted = at::zeros({unit.parts[i]}, to), rows = unit.rows(i, rank);
            wanted.narrow(0, 0, rows.numel()).copy_(rows);
            REQUIRE(at::equal(unit.place(buffer, i, rank), wanted));
          }
      }
}

TEST_CASE(
    "device kernels: parameters come out of a gathered buffer, and nothing beyond them is "
    "written") {
  at::manual_seed(16);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t ranks : {1, 3, 64}) {
      CAPTURE(ranks);
      const Unit unit(40, ranks, type);
      const at::Tensor buffer = random({ranks * unit.of_rank}, type);
      const at::Tensor before = buffer.clone();
      out_of_buffer(unit, buffer);
      for (std::size_t i = 0; i < unit.wholes.size(); ++i)
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const at::Tensor rows = unit.rows(i, rank);
          REQUIRE(at::equal(rows, unit.place(buffer, i, rank).narrow(0, 0, rows.numel())));
        }
      CHECK(at::equal(buffer, before));
    }
}

}  // namespace ac_advisor::test
