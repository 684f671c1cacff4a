// advise --solve world and gpu against every combination planned by itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::test {
namespace {

struct Asked {
  model::ModelSpec model = model::load_model("llama-3.2-1b");
  OptionList hand{{"--seq", "2048"}, {"--loss", "ce"}, {"--kernels", "eager"}};

  [[nodiscard]] advise::Around with(const std::string& option, const std::string& value) const {
    OptionList options = hand;
    options.emplace_back(option, value);
    const advise::Resolved resolved = advise::resolve(model, options);
    advise::Space space = advise::space_around(model, resolved.config, resolved.options);
    space.set("--ac", {"none", "full"});
    space.keep("--ac-scope", resolved.config);
    space.keep("--batch", resolved.config);
    return {resolved.config, space};
  }

  /// Of all combinations that the framework has and that fit, the highest tokens/s; 0: none fits.
  [[nodiscard]] double best_of(const advise::Around& around) const {
    double best = 0;
    for (const StepConfig& c : advise::combinations(model, around.base, around.space)) {
      if (passes::find_exclusion(model, c) != nullptr) continue;
      if (!advise::unavailable(model, c).empty()) continue;
      const profile::Profile planned = advise::plan(model, c, false);
      if (planned.fit.fits) best = std::max(best, planned.time.tokens_per_second);
    }
    return best;
  }
};

}  // namespace

TEST_CASE("--solve world: on fewer devices nothing fits, and each row is the fastest that does") {
  Asked asked;
  asked.hand.insert(asked.hand.end(), {{"--gpu", "rtx-3090"}, {"--batch", "4"}});
  const advise::Largest found = advise::fewest_devices(
      asked.model, asked.with("--world", "1").base,
      [&](std::int64_t world) { return asked.with("--world", std::to_string(world)); });
  REQUIRE(found.found.size() == 3);
  CHECK(found.sought == advise::Sought::world);
  std::int64_t before = 0;
  for (const advise::Found& row : found.found) {
    CHECK(row.value > before);
    CHECK(row.profile.fit.fits);
    CHECK(row.profile.config.layout.world == row.value);
    CHECK(row.profile.time.tokens_per_second ==
          doctest::Approx(asked.best_of(asked.with("--world", std::to_string(row.value)))));
    before = row.value;
  }
  for (const advise::NotPlanned& fewer : found.left_out) {
    CHECK(std::stoll(fewer.technique) < found.found.front().value);
    CHECK(fewer.why.starts_with("nothing fits: "));
    CHECK(asked.best_of(asked.with("--world", fewer.technique)) == 0);
  }
  CHECK(found.left_out.size() >= 1);  // 1.2 B parameters in bf16 with AdamW: one is too small
  CHECK(found.answer.find(", not on fewer: ") != std::string::npos);
}

TEST_CASE("--solve world: numbers beyond a node are whole nodes") {
  Asked asked;
  asked.hand = {{"--seq", "4096"}, {"--batch", "1"},   {"--gpu", "l4"},       {"--ac", "full"},
                {"--loss", "ce"},  {"--shard", "ddp"}, {"--kernels", "eager"}};
  asked.model = model::load_model("llama-3.1-8b");
  const advise::Largest none = advise::fewest_devices(
      asked.model, asked.with("--world", "2").base,
      [&](std::int64_t world) { return asked.with("--world", std::to_string(world)); });
  CHECK(none.found.empty());  // every rank has all of the model
  std::vector<std::int64_t> tried;
  for (const advise::NotPlanned& one : none.left_out) tried.push_back(std::stoll(one.technique));
  REQUIRE(tried.size() > 8);
  CHECK(std::is_sorted(tried.begin(), tried.end()));
  CHECK(std::vector<std::int64_t>(tried.begin(), tried.begin() + 8) ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 32, 48});
  CHECK(none.answer.find("fits on no number of l4 up to 4096") != std::string::npos);
}

TEST_CASE("--solve gpu: every built-in GPU is a row or told, and smaller ones do not fit") {
  Asked asked;
  asked.hand.insert(asked.hand.end(), {{"--batch", "2"}, {"--ac", "none"}});
  const advise::Largest found =
      advise::smallest_device(asked.model, asked.with("--gpu", "l4").base,
                              [&](const std::string& gpu) { return asked.with("--gpu", gpu); });
  std::size_t gpus = 0;
  for (const std::string& name : simulate::device_names())
    gpus += simulate::find_device(name).cuda ? 1 : 0;
  CHECK(found.found.size() + found.left_out.size() == gpus);
  REQUIRE(found.found.size() > 2);
  for (std::size_t i = 1; i < found.found.size(); ++i)
    CHECK(found.found[i - 1].value <= found.found[i].value);
  for (const advise::Found& row : found.found) {
    CHECK(row.profile.fit.fits);
    CHECK(row.label.starts_with(row.profile.config.device.gpu + " "));
    CHECK(row.value == simulate::find_device(row.profile.config.device.gpu).memory_bytes);
  }
  REQUIRE(!found.left_out.empty());
  for (const advise::NotPlanned& one : found.left_out)
    CHECK(asked.best_of(asked.with("--gpu", one.technique)) == 0);
}

TEST_CASE("--solve gpu: a GPU without FP8 is left out with that reason") {
  Asked asked;
  asked.hand = {{"--framework", "torchtitan"}, {"--fp8", "tensorwise"}, {"--seq", "2048"}};
  const advise::Largest found =
      advise::smallest_device(asked.model, asked.with("--gpu", "h100-80gb").base,
                              [&](const std::string& gpu) { return asked.with("--gpu", gpu); });
  const auto ampere = std::find_if(found.left_out.begin(), found.left_out.end(),
                                   [](const auto& one) { return one.technique == "a100-80gb"; });
  REQUIRE(ampere != found.left_out.end());
  CHECK(ampere->why.starts_with("--fp8 tensorwise on a100-80gb: "));
}

}  // namespace ac_advisor::test
