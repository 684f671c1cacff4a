#include "reach.hpp"

#include <bit>

namespace ac_advisor::passes::compile {

Reach::Reach(const std::vector<std::vector<std::int32_t>>& needs)
    : words_((needs.size() + 63) / 64),
      before_(needs.size() * words_, 0),
      after_(needs.size() * words_, 0) {
  const auto add = [this](Words& all, std::int32_t node, std::int32_t other) {
    const auto to = row(all, node), from = row(all, other);
    for (std::size_t w = 0; w < words_; ++w) to[w] |= from[w];
    to[at(other) / 64] |= std::uint64_t{1} << (at(other) % 64);
  };
  const auto size = static_cast<std::int32_t>(needs.size());
  for (std::int32_t n = 0; n < size; ++n)
    for (const std::int32_t need : needs[at(n)]) add(before_, n, need);
  for (std::int32_t n = size; n-- > 0;)
    for (const std::int32_t need : needs[at(n)]) add(after_, need, n);
}

/// The rows `mine` of the two become one. Of what lies the other way of only one of them, a row of
/// `other_way`… hence what is there of `mine` for the other is new; what lies beyond both has it.
void Reach::join_side(Words& mine, Words& other_way, std::int32_t into, std::int32_t from) const {
  const auto a = row(mine, into), b = row(mine, from);
  const auto beyond_a = row(other_way, into), beyond_b = row(other_way, from);
  std::size_t first = words_, end = 0;  // where the two rows differ
  for (std::size_t w = 0; w < words_; ++w)
    if (a[w] != b[w]) {
      if (first == words_) first = w;
      end = w + 1;
    }
  for (std::size_t w = 0; w < words_; ++w)
    for (std::uint64_t bits = beyond_a[w] ^ beyond_b[w]; bits != 0; bits &= bits - 1) {
      const auto n = static_cast<std::int32_t>(64 * w + std::countr_zero(bits));
      if (n == into || n == from) continue;
      const auto to = row(mine, n);
      for (std::size_t i = first; i < end; ++i) to[i] |= a[i] | b[i];
      to[at(into) / 64] |= std::uint64_t{1} << (at(into) % 64);
    }
}

void Reach::join(std::int32_t into, std::int32_t from) {
  join_side(before_, after_, into, from);
  join_side(after_, before_, into, from);
  for (Words* all : {&before_, &after_}) {
    const auto a = row(*all, into), b = row(*all, from);
    for (std::size_t w = 0; w < words_; ++w) a[w] |= b[w];
    for (const std::int32_t own : {into, from})
      a[at(own) / 64] &= ~(std::uint64_t{1} << (at(own) % 64));
  }
}

}  // namespace ac_advisor::passes::compile
