#include "passes/compile/min_cut.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace ac_advisor::passes::compile {
namespace {

struct Edge {
  std::int32_t from, to;
  std::int64_t capacity;
};

std::int64_t weight(const std::vector<Edge>& edges, std::uint32_t sink_side) {
  std::int64_t sum = 0;
  for (const Edge& e : edges)
    if ((sink_side >> e.from & 1U) == 0 && (sink_side >> e.to & 1U) == 1) sum += e.capacity;
  return sum;
}

/// Of all partitions the lightest, and of these the one with the smallest sink side.
std::uint32_t lightest(const std::vector<Edge>& edges, std::int32_t nodes) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::uint32_t smallest = 0;
  for (std::uint32_t side = 0; side < 1U << nodes; ++side) {
    if ((side & 1U) == 1 || (side >> (nodes - 1) & 1U) == 0) continue;  // source 0, sink the last
    const std::int64_t sum = weight(edges, side);
    if (sum > best) continue;
    smallest = sum < best ? side : smallest & side;  // minimum cuts intersect in a minimum cut
    best = sum;
  }
  return smallest;
}

}  // namespace

TEST_CASE("the cut is the lightest of all, and of equals the one nearest the sink") {
  std::mt19937 random(16);
  for (int round = 0; round < 300; ++round) {
    const std::int32_t nodes = 3 + round % 6;
    std::vector<Edge> edges;
    for (int i = 0; i < 3 * nodes; ++i)
      edges.push_back({static_cast<std::int32_t>(random() % static_cast<unsigned>(nodes)),
                       static_cast<std::int32_t>(random() % static_cast<unsigned>(nodes)),
                       static_cast<std::int64_t>(random() % 4)});
    MinCut cut(nodes);
    for (const Edge& e : edges) cut.edge(e.from, e.to, e.capacity);
    const std::vector<bool> found = cut.sink_side(0, nodes - 1);
    std::uint32_t side = 0;
    for (std::size_t i = 0; i < found.size(); ++i) side |= found[i] ? 1U << i : 0U;
    CHECK(side == lightest(edges, nodes));
  }
}

TEST_CASE("a graph without a finite cut is refused") {
  MinCut cut(3);
  cut.edge(0, 1, MinCut::infinite);
  cut.edge(1, 2, MinCut::infinite);
  CHECK_THROWS_AS((void)cut.sink_side(0, 2), std::logic_error);
}

}  // namespace ac_advisor::passes::compile
