// When exactly a regression is one. The thresholds are computed by hand beside each line.
#include "gate/limits.hpp"

#include <limits>

#include "gate/gate_folder.hpp"

using namespace ac_advisor;
using gate::allowed;
using gate::Regression;

namespace {

Regression percent(double p) {
  return {static_cast<std::int64_t>(std::llround(p * 1e6)), std::nullopt};
}

}  // namespace

TEST_CASE("an allowed regression is exact at its edge") {
  CHECK(allowed(percent(0), 1000) == 1000);
  CHECK(allowed(percent(1), 1000) == 1010);
  CHECK(allowed(percent(1), 1099) == 1109);       // 10.99 of 1099: whole bytes
  CHECK(allowed(percent(0.57), 10000) == 10057);  // 0.57 * 10000 is below 5700 in doubles
  CHECK(allowed(percent(0.3), 1000) == 1003);     // and 0.3 * 1000 below 300 in long doubles
  CHECK(allowed(percent(0.000001), 100000000) == 100000001);
  CHECK(allowed(percent(100), 12345) == 24690);
  CHECK(allowed(percent(10), 0) == 0);
}

TEST_CASE("where percent and an amount are given, both must hold") {
  CHECK(allowed({1000000, 5}, 1000) == 1005);  // 1 % is 10
  CHECK(allowed({1000000, 50}, 1000) == 1010);
  CHECK(allowed({std::nullopt, 7}, 1000) == 1007);
  CHECK(allowed({std::nullopt, 0}, 1000) == 1000);
}

TEST_CASE("no allowance overflows") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(allowed(percent(100), most) == most);
  CHECK(allowed({std::nullopt, most}, most) == most);
  // 2^62 is 4611686018427387904; a hundredth of it, rounded down, is 46116860184273879.
  CHECK(allowed(percent(1), std::int64_t{1} << 62) == 4611686018427387904 + 46116860184273879);
}
