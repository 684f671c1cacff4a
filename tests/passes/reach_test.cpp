#include "passes/compile/reach.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace ac_advisor::passes::compile {
namespace {

/// The same graph as lists, walked each time.
struct Lists {
  std::vector<std::vector<std::int32_t>> needs;
  std::vector<std::int32_t> now;  ///< what a node has become a part of

  [[nodiscard]] bool depends(std::int32_t node, std::int32_t on) const {
    std::vector<std::int32_t> rest{node};
    std::vector<bool> seen(needs.size(), false);
    while (!rest.empty()) {
      const auto current = static_cast<std::size_t>(rest.back());
      rest.pop_back();
      for (std::int32_t need : needs[current]) {
        need = now[static_cast<std::size_t>(need)];
        if (need == on) return true;
        if (need == static_cast<std::int32_t>(current) || seen[static_cast<std::size_t>(need)])
          continue;
        seen[static_cast<std::size_t>(need)] = true;
        rest.push_back(need);
      }
    }
    return false;
  }
  /// Whether something between the two needs `into` and is needed by `from`.
  [[nodiscard]] bool between(std::int32_t into, std::int32_t from) const {
    for (std::int32_t need : needs[static_cast<std::size_t>(from)]) {
      need = now[static_cast<std::size_t>(need)];
      if (need != into && need != from && depends(need, into)) return true;
    }
    return false;
  }
  void join(std::int32_t into, std::int32_t from) {
    auto& all = needs[static_cast<std::size_t>(into)];
    const auto& more = needs[static_cast<std::size_t>(from)];
    all.insert(all.end(), more.begin(), more.end());
    for (std::int32_t& one : now)
      if (one == from) one = into;
  }
};

}  // namespace

TEST_CASE("what nodes depend on, while they become one, is what a walk over the graph finds") {
  std::mt19937 random(7);
  int joined = 0, asked = 0;
  for (int round = 0; round < 40; ++round) {
    const std::int32_t size = 70 + round;  // more than one word of bits
    Lists lists;
    lists.needs.resize(static_cast<std::size_t>(size));
    for (std::int32_t n = 0; n < size; ++n) {
      lists.now.push_back(n);
      for (std::uint32_t i = 0; n > 0 && i < random() % 3; ++i)
        lists.needs[static_cast<std::size_t>(n)].push_back(
            static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n)));
    }
    Reach reach(lists.needs);
    for (int attempt = 0; attempt < 60; ++attempt) {
      const auto a = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(size)),
                 b = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(size));
      const bool live = lists.now[static_cast<std::size_t>(a)] == a &&
                        lists.now[static_cast<std::size_t>(b)] == b && a != b;
      if (!live || lists.depends(a, b) || lists.between(a, b)) continue;
      lists.join(a, b);
      reach.join(a, b);
      ++joined;
    }
    for (std::int32_t a = 0; a < size; ++a)
      for (std::int32_t b = 0; b < size; ++b) {
        if (a == b || lists.now[static_cast<std::size_t>(a)] != a ||
            lists.now[static_cast<std::size_t>(b)] != b)
          continue;
        REQUIRE(reach.depends(a, b) == lists.depends(a, b));
        ++asked;
      }
  }
  CHECK(joined > 500);
  CHECK(asked > 50000);
}

}  // namespace ac_advisor::passes::compile
