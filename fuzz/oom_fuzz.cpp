// Whatever the text, its errors are read and explained without a model; what is told is finite: no
// size is negative, and what is free and missing never sums to less than was asked for.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ac_advisor/reports/oom.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ac_advisor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const oom::Explanation e = oom::explain(oom::read_errors(text), oom::cache_flushes(text));
  for (const oom::Finding& f : e.findings) {
    if (f.error.requested && f.error.requested->bytes < 0) __builtin_trap();
    if (f.missing < 0 || f.error.times < 1) __builtin_trap();
    if (f.tensor && (f.tensor->bytes <= 0 || f.tensor->element <= 0)) __builtin_trap();
  }
  static_cast<void>(reports::table(e, {}));
  static_cast<void>(reports::json(e));
  return 0;
}
