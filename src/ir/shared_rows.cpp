#include "shared_rows.hpp"

#include <algorithm>

#include "whole_units.hpp"

namespace ac_advisor::ir {
namespace {

// Threads of a block that reduces, of a multiprocessor and of a warp; values a thread from which
// several blocks share an output, and that each then has at least.
constexpr std::int64_t most_threads = 512, threads_of_sm = 2048, warp = 32, few = 16, many = 256;

/// The largest power of two that is not above either.
std::int64_t power_within(std::int64_t n, std::int64_t most) {
  std::int64_t below = 1;
  while (2 * below <= std::min(n, most)) below *= 2;
  return below;
}

}  // namespace

SharedRows shared_rows(std::int64_t outputs, std::int64_t rows, std::int64_t sm_count) {
  const std::int64_t vector = outputs % 4 == 0 ? 4 : outputs % 2 == 0 ? 2 : 1;
  const std::int64_t most = most_threads / vector, widest = power_within(outputs / vector, most);
  const std::int64_t height = std::min(power_within(rows, most), most / std::min(widest, warp));
  const std::int64_t width = std::min(widest, most / height);
  if (rows < many && rows < few * height) return {};
  const std::int64_t values = ceil_div(rows, height), grid = ceil_div(outputs / vector, width);
  const std::int64_t blocks = sm_count * (threads_of_sm / (width * height));
  if (values < many || grid > blocks) return {};
  return {std::max(std::min(ceil_div(blocks, grid), ceil_div(values, few)), ceil_div(values, many)),
          width * vector, grid};
}

std::int64_t blocks_of_whole(std::int64_t values, std::int64_t sm_count) {
  const std::int64_t of_thread = ceil_div(values, most_threads);
  if (of_thread < many) return 1;
  const std::int64_t blocks = sm_count * (threads_of_sm / most_threads);
  return std::max(std::min(blocks, ceil_div(of_thread, few)), ceil_div(of_thread, many));
}

std::int32_t whole_reduction_launches(std::int64_t values) {
  return blocks_of_whole(values, counted_sms) > 1 ? 2 : 1;
}

}  // namespace ac_advisor::ir
