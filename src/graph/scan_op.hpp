#pragma once

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "ac_advisor/graph/graph.hpp"
#include "lifetimes.hpp"
#include "scan_graph.hpp"
#include "scan_text.hpp"

namespace ac_advisor::graph {

/// References, and ops that are made of them. Whether they are in range is seen when all is read.
class OpScanner {
 public:
  OpScanner(Text& text, Graph& graph) : t_(text), g_(graph) {}

  Index index() { return static_cast<Index>(t_.integer(std::numeric_limits<Index>::max())); }
  void indices(Indices& into) {
    scan_list(t_, [&] { into.push_back(index()); });
  }
  template <std::size_t n>
  std::array<Index, n> numbers() {
    std::array<Index, n> found{};
    std::size_t count = 0;
    scan_list(t_, [&] {
      require(count < n);
      found[count++] = index();
    });
    require(count == n);
    return found;
  }
  template <typename Names>
  std::size_t one_of(const Names& names) {
    const std::string_view word = t_.string();
    const auto found = std::find(std::begin(names), std::end(names), word);
    require(found != std::end(names));
    return static_cast<std::size_t>(found - std::begin(names));
  }

  Op op() {
    constexpr std::array<std::string_view, 12> keys{"op",      "phase", "module", "in",
                                                    "out",     "frees", "drops",  "launches",
                                                    "product", "flops", "node",   "forward"};
    Op op;
    const auto read_key = [&](std::size_t key) {
      switch (key) {
        case 0:
          op.name = name_of(t_.string());
          return;
        case 1:
          op.phase = static_cast<Phase>(one_of(phase_names));
          return;
        case 2:
          op.module = index();
          return;
        case 3:
          return indices(op.in);
        case 4:
          return indices(op.out);
        case 5:
          return indices(op.frees);
        case 6:
          return indices(op.drops);
        case 7:
          op.launches = t_.integer(most_launches);
          return;
        case 8: {
          const auto [rows, columns, inner] = numbers<3>();
          op.product = Product{rows, columns, inner};
          return;
        }
        case 9: {
          constexpr double most_flops = 1e30;
          op.flops = t_.number(most_flops);
          return;
        }
        case 10:
          op.node = index();
          return;
        default:
          op.forward = index();
      }
    };
    require((scan_object(t_, keys, read_key) & 3U) == 3U);
    return op;
  }

 private:
  Index name_of(std::string_view name) {
    const auto [at, added] = names_.try_emplace(name, static_cast<Index>(g_.op_names.size()));
    if (added) g_.op_names.emplace_back(name);
    return at->second;
  }

  Text& t_;
  Graph& g_;
  std::unordered_map<std::string_view, Index> names_;
};

}  // namespace ac_advisor::graph
