#include "emulator/values/delivery.hpp"

#include <array>
#include <cstring>

#include "emulator/answer.hpp"

namespace emulator::values {
namespace {

struct Delivery {
  std::array<char, 16> bytes{};
  std::size_t count = 0;  ///< 0: nothing waits
};
thread_local Delivery waiting;

}  // namespace

bool take_delivery(void* to, std::size_t bytes) noexcept {
  if (waiting.count == 0 || waiting.count != bytes) return false;
  std::memcpy(to, waiting.bytes.data(), bytes);
  waiting.count = 0;
  return true;
}

}  // namespace emulator::values

/// For ac_advisor_values. `count` = 0 withdraws what was not taken.
ANSWER void ac_advisor_emulator_deliver(const void* bytes, std::size_t count) {
  using emulator::values::waiting;
  if (count > waiting.bytes.size()) return;
  if (count > 0) std::memcpy(waiting.bytes.data(), bytes, count);
  waiting.count = count;
}
