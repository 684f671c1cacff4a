#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ac_advisor::passes::compile {

/// Which nodes of a graph without cycles need which others, however far, while some become one.
class Reach {
 public:
  /// `needs` of each node: nodes before it.
  explicit Reach(const std::vector<std::vector<std::int32_t>>& needs);

  [[nodiscard]] bool depends(std::int32_t node, std::int32_t on) const {
    return (before_[at(node) * words_ + at(on) / 64] >> (at(on) % 64) & 1U) != 0;
  }
  /// `from` becomes a part of `into`, which does not need it, and is not asked for any more.
  /// Nothing may need the one and be needed by the other.
  void join(std::int32_t into, std::int32_t from);

 private:
  using Words = std::vector<std::uint64_t>;

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::span<std::uint64_t> row(Words& all, std::int32_t node) const {
    return {all.data() + at(node) * words_, words_};
  }
  void join_side(Words& mine, Words& other_way, std::int32_t into, std::int32_t from) const;

  std::size_t words_;     ///< 64 nodes each, of a row
  Words before_, after_;  ///< a row a node: what it needs, and what needs it
};

}  // namespace ac_advisor::passes::compile
