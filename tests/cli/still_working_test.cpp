#include "cli/still_working.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace ac_advisor;
using namespace std::chrono_literals;

TEST_CASE("what takes long is told now and then, what does not never") {
  std::atomic<int> told = 0;
  std::string last;
  const auto say = [&](const std::string& text) {
    last = text;
    ++told;
  };
  { const cli::StillWorking quick("plan", 10s, 10s, say); }
  CHECK(told == 0);
  {
    const cli::StillWorking slow("plan", 1ms, 1ms, say);
    for (int i = 0; i < 5000 && told < 2; ++i) std::this_thread::sleep_for(1ms);
  }
  CHECK(told >= 2);
  CHECK(last.find("plan: still at work after ") == 0);
}
