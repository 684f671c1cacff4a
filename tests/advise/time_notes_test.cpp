#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "passes/small_model.hpp"

namespace ac_advisor::test {
namespace {

bool says(const std::vector<std::string>& notes, const std::string& part) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a loop that holds its output through the next forward is told, and fp32 without TF32") {
  const auto plan = [](const OptionList& more) {
    return advise::plan(small_model(), resolve_options(more));
  };
  CHECK(says(plan({}).assumptions, "until the next forward is done"));
  CHECK_FALSE(says(plan({{"--hold-output", ""}}).assumptions, "until the next forward is done"));
  CHECK(says(plan({{"--param-dtype", "fp32"}}).assumptions, "without TF32"));
  CHECK_FALSE(says(plan({}).assumptions, "TF32"));
}

TEST_CASE("a plan says that it is launch-bound where the device mostly waits for the host") {
  // 128 tokens through 64 columns take the device microseconds an op, the host twelve
  const profile::Profile small = advise::plan(small_model(), resolve_options({}));
  CHECK(small.time.launch_bound > 0.25 * small.time.step);
  CHECK(says(small.assumptions, "launch-bound: the device waits for the host"));
  const profile::Profile large = advise::plan(
      model::load_model("llama-3.2-1b"), resolve_options({{"--batch", "8"}, {"--seq", "2048"}}));
  CHECK_FALSE(says(large.assumptions, "launch-bound"));
}

TEST_CASE("a plan of several nodes says what joins them, and takes longer over a slower network") {
  const auto plan = [](const OptionList& more) {
    OptionList options = {{"--world", "64"}, {"--shard", "fsdp2"}, {"--batch", "1"}};
    options.insert(options.end(), more.begin(), more.end());
    return advise::plan(model::load_model("llama-3.2-1b"), resolve_options(options));
  };
  const profile::Profile usual = plan({});
  CHECK(says(usual.assumptions, "8 nodes of 8 GPUs, 400 Gbit/s per GPU"));
  const profile::Profile slow = plan({{"--network", "25"}});
  CHECK(says(slow.assumptions, "25 Gbit/s"));
  CHECK(slow.time.step > 1.5 * usual.time.step);
  CHECK(slow.memory.peak_allocated == usual.memory.peak_allocated);
  CHECK_FALSE(says(plan({{"--node-size", "64"}}).assumptions, "nodes of"));
  CHECK(says(plan({{"--gpu", "l40s"}}).warnings, "give --network"));
}

}  // namespace ac_advisor::test
