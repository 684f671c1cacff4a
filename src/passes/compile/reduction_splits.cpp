#include "reduction_splits.hpp"

#include <algorithm>
#include <cstdlib>

namespace ac_advisor::passes::compile {
namespace {

constexpr std::int64_t multiprocessors = 132, threads = 2048;
/// What a thread adds at least and at most.
constexpr std::int64_t least = 32, most = 512;

std::int64_t quotient(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t nearest_divisor(std::int64_t of, std::int64_t to) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d * d <= of; ++d) {
    if (of % d != 0) continue;
    for (const std::int64_t one : {d, of / d})
      if (std::abs(one - to) < std::abs(best - to) ||
          (std::abs(one - to) == std::abs(best - to) && one < best))
        best = one;
  }
  return best;
}

}  // namespace

std::int64_t inner_reduction_splits(std::int64_t elements, std::int64_t outputs) {
  constexpr std::int64_t of_block = 256;
  if (outputs >= 2 * multiprocessors || elements <= most_unsplit) return 1;
  const std::int64_t all = elements * outputs, device = multiprocessors * threads;
  std::int64_t split = most;
  if (all <= least * device) {
    split = least;
  } else if (all < most * device) {
    const std::int64_t blocks = quotient(device / (2 * of_block), outputs);
    split = quotient(elements, of_block * blocks);
    const std::int64_t even = nearest_divisor(elements, split);
    if (std::abs(even - split) < 30) split = std::max(even, least);
  } else if (const std::int64_t even = nearest_divisor(elements, most);
             std::abs(even - most) < 50) {
    split = even;
  }
  return quotient(elements, split * of_block);
}

std::int64_t outer_reduction_splits(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t of_block = 256, of_thread = 4, columns_a_block = 128;
  if (rows <= least || columns >= multiprocessors * 2 * 32) return 1;
  const std::int64_t device = multiprocessors * threads;
  std::int64_t split = most;
  if (rows * columns < least * device) {
    split = least;
  } else if (rows * columns < most * device) {
    const std::int64_t blocks = quotient(device / of_block, quotient(columns, columns_a_block));
    split = quotient(rows, of_thread * blocks);
    const std::int64_t even = nearest_divisor(rows, split);
    if (std::abs(split - even) < 20) split = std::max(even, least);
  } else if (const std::int64_t even = nearest_divisor(rows, most); std::abs(even - most) < 50) {
    split = even;
  }
  return quotient(rows, of_thread * split);
}

}  // namespace ac_advisor::passes::compile
