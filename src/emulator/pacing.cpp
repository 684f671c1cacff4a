#include "emulator/pacing.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>

namespace emulator {
namespace {

std::chrono::microseconds each_launch() {
  const char* text = std::getenv("AC_ADVISOR_EMULATOR_PACE");
  return std::chrono::microseconds(text == nullptr ? 0 : std::atol(text));
}

}  // namespace

void pace() noexcept {
  static const std::chrono::microseconds wait = each_launch();
  if (wait.count() > 0) std::this_thread::sleep_for(wait);
}

}  // namespace emulator
