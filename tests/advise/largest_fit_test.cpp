#include "advise/largest_fit.hpp"

#include <doctest/doctest.h>

#include <map>

#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {
namespace {

using advise::largest_fit;
using advise::LargestFit;
using advise::Tried;

/// A device that allocates up to `allocates`, and reserves for `fits`; counts what was planned.
struct Device {
  std::int64_t allocates;
  std::function<bool(std::int64_t)> fits;
  std::map<std::int64_t, int> planned;

  LargestFit sought(std::int64_t from, std::int64_t most) {
    return largest_fit(from, most, [&](std::int64_t size) {
      CHECK(size >= 1);
      CHECK(size <= most);
      ++planned[size];
      return Tried{size <= allocates, size <= allocates && fits(size)};
    });
  }
};

}  // namespace

TEST_CASE("of 141, 143 and no 142 the largest that fits is 143, wherever the search begins") {
  for (const std::int64_t from : {1, 8, 141, 142, 143, 150, 400}) {
    Device device{150, [](std::int64_t n) { return n <= 141 || n == 143; }, {}};
    const LargestFit found = device.sought(from, 512);
    CHECK(found.value == 143);
    CHECK(found.exact);
    for (const auto& [size, times] : device.planned) CHECK(times == 1);
  }
}

TEST_CASE("where too many sizes lie between what fits and what allocates, the answer is at least") {
  Device device{1000, [](std::int64_t n) { return n <= 100 || n == 900; }, {}};
  const LargestFit found = device.sought(8, 4096);
  CHECK(found.value >= 100);
  CHECK_FALSE(found.exact);
  CHECK(device.planned.size() < 80);
}

TEST_CASE("nothing that fits is 0, and the most that is sought is at least") {
  CHECK(Device{150, [](auto) { return false; }, {}}.sought(8, 64).value == 0);
  CHECK(Device{0, [](auto) { return true; }, {}}.sought(8, 64).value == 0);
  const LargestFit all = Device{150, [](auto) { return true; }, {}}.sought(8, 100);
  CHECK(all.value == 100);
  CHECK_FALSE(all.exact);
}

TEST_CASE("--solve batch and a sweep's max b are one search") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList hand{
      {"--ac", "full"}, {"--kernels", "fused"}, {"--loss", "ce"}, {"--seq", "4096"}};
  const StepConfig base = resolve_options(hand);
  const advise::Space space = advise::space_around(model, base, hand);
  const advise::Sweep sweep = advise::sweep(model, base, space);
  advise::Space one = space;
  one.keep("--ac-scope", base);
  const advise::Largest solved = advise::largest(advise::Sought::batch, model, base, one);
  REQUIRE(solved.found.size() == 1);
  bool compared = false;
  for (const advise::Row& row : sweep.rows)
    if (row.profile.config.memory.scope == base.memory.scope) {
      CHECK(solved.found[0].value == row.largest_batch);
      CHECK(solved.found[0].exact == row.largest_batch_exact);
      compared = true;
    }
  CHECK(compared);
}

TEST_CASE("--solve answers with what the framework has: hf has no lc-ce") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList hand{{"--ac", "none"}, {"--seq", "1024"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.keep("--kernels", base);
  const advise::Largest solved = advise::largest(advise::Sought::batch, model, base, space);
  CHECK(solved.answer.find("lc-ce") == std::string::npos);
  CHECK(solved.found.front().unavailable.empty());
  bool marked = false;
  for (const advise::Found& found : solved.found)
    if (found.label.find("lc-ce") != std::string::npos) {
      marked = true;
      CHECK(found.unavailable.find("--loss lc-ce") != std::string::npos);
      CHECK(found.value > 0);
    }
  CHECK(marked);
}

}  // namespace ac_advisor::test
