#include "passes/compile/memory_order.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace ac_advisor::passes::compile {

// Buffers: 0 is given (10 bytes); launch 0 makes 1 (100) of it, launch 1 makes 2 (100) of it,
// launch 2 makes the result 3 (1) of 1, launch 3 the result 4 (1) of 2. As they come, 1 and 2 live
// at once: 10 + 100 + 100. One after the other: 10 + 100 + 1, then 10 + 1 + 100 + 1.
const std::vector<LaunchMemory> launches{{{0}, {1}}, {{0}, {2}}, {{1}, {3}}, {{2}, {4}}};
const std::vector<BufferMemory> buffers{
    {10, true, false}, {100}, {100}, {1, false, true}, {1, false, true}};

TEST_CASE("launches run in the order whose estimated peak is the least") {
  const std::vector<std::int32_t> order = order_for_peak_memory(launches, buffers).order;
  std::vector<std::size_t> at(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) at[static_cast<std::size_t>(order[i])] = i;
  CHECK(at[0] < at[2]);
  CHECK(at[1] < at[3]);
  // One of the two chains is done before the other begins.
  CHECK((at[2] < at[1] || at[3] < at[0]));
}

TEST_CASE("what is first in the graph stays first where no order holds less") {
  const std::vector<LaunchMemory> chain{{{0}, {1}}, {{1}, {2}}, {{2}, {3}}};
  const std::vector<BufferMemory> of_chain{{10, true, false}, {100}, {100}, {1, false, true}};
  CHECK(order_for_peak_memory(chain, of_chain).order == std::vector<std::int32_t>{0, 1, 2});
}

TEST_CASE(
    "the estimate counts a buffer from its launch to its last reader, and results not at all") {
  // The result's byte is taken off before the first launch; each buffer is freed once its reader
  // has run.
  const std::vector<LaunchMemory> chain{{{0}, {1}}, {{1}, {2}}, {{2}, {3}}};
  const std::vector<BufferMemory> of_chain{{10, true, false}, {100}, {200}, {1, false, true}};
  const std::vector<std::int64_t> live = order_for_peak_memory(chain, of_chain).memory;
  REQUIRE(live.size() == 4);
  CHECK(live[0] == 10 + 100 - 1);
  CHECK(live[1] == 100 + 200 - 1);
  CHECK(live[2] == 200 + 1 - 1);
  CHECK(live[3] == 1 - 1);
}

TEST_CASE("freed memory is handed on where that raises no estimated peak") {
  ReusePool pool({100, 300, 250, 250});
  pool.free(7, DType::bf16, 60, 0);
  CHECK(pool.allocate(DType::f32, 60, 1) == -1);   // of another dtype
  CHECK(pool.allocate(DType::bf16, 50, 1) == -1);  // of another size
  // Kept from launch 0 to 3 it would be there at the peak, 300, too.
  CHECK(pool.allocate(DType::bf16, 60, 3) == -1);
  CHECK(pool.allocate(DType::bf16, 60, 1) == 7);  // right after it was freed
  CHECK(pool.allocate(DType::bf16, 60, 1) == -1);
  pool.free(8, DType::bf16, 50, 1);
  CHECK(pool.allocate(DType::bf16, 50, 3) == 8);  // 250 + 50 is no more than 300
}

}  // namespace ac_advisor::passes::compile
