// --ac budget:SIZE of compiled blocks, beside PyTorch's own memory-budget:F.
#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "advise/budget.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

StepConfig compiled(const char* attention = "cudnn") {
  return resolve_options(
      {{"--kernels", "compiled"}, {"--batch", "8"}, {"--seq", "2048"}, {"--attn", attention}});
}

profile::Profile within(const model::ModelSpec& model, StepConfig c, std::int64_t bytes) {
  c.memory.ac = AcMode::budget;
  c.memory.ac_arg = bytes;
  return advise::plan(model, c, false);
}

profile::Profile by_knapsack(const model::ModelSpec& model, StepConfig c, double share) {
  c.memory.ac = AcMode::memory_budget;
  c.memory.memory_budget = share;
  return advise::plan(model, c, false);
}

}  // namespace

TEST_CASE("at the memory that PyTorch's knapsack needs, budget: is never slower") {
  const StepConfig steps[] = {compiled(), compiled("flash")};
  int faster = 0, compared = 0;
  for (const char* name : {"llama-3.2-1b", "qwen3-0.6b", "mistral-7b"})
    for (const StepConfig& step : steps) {
      if (sanitized && compared > 3) continue;
      const model::ModelSpec model = model::load_model(name);
      for (int percent = 0; percent <= 100; percent += sanitized ? 50 : 7) {
        const profile::Profile theirs = by_knapsack(model, step, percent / 100.0);
        const profile::Profile ours = within(model, step, theirs.memory.peak_allocated);
        INFO(name, " ", to_option(step.run.attention), " ", percent, " %: ", ours.budget->plan);
        CHECK(ours.memory.peak_allocated <= theirs.memory.peak_allocated);
        CHECK(ours.time.step <= theirs.time.step + 1e-9);
        faster += ours.time.step < theirs.time.step * 0.999 ? 1 : 0;
        ++compared;
      }
    }
  MESSAGE(faster, " of ", compared, " are faster by more than a thousandth");
  CHECK(faster > 0);
}

TEST_CASE(
    "of compiled blocks a larger budget never gives a slower plan, and none exceeds its own") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const std::int64_t least = by_knapsack(model, compiled(), 0).memory.peak_allocated,
                     most = by_knapsack(model, compiled(), 1).memory.peak_allocated;
  double before = 1e300;
  for (std::int64_t i = 0; i <= 40; i += sanitized ? 10 : 1) {
    const std::int64_t budget = least + (most - least) / 40 * i + (i == 40 ? 40 : 0);
    const profile::Profile p = within(model, compiled(), budget);
    INFO(budget, ": ", p.budget->plan);
    CHECK(p.memory.peak_allocated <= budget);
    CHECK(p.time.step <= before + 1e-9);
    CHECK(p.budget->lower_bound_seconds <= p.budget->recompute_seconds);
    before = p.time.step;
  }
  CHECK(within(model, compiled(), most).budget->plan == "blocks 0-15 none");
}

TEST_CASE("what budget: chose of compiled blocks is read back from a saved profile") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  StepConfig c = compiled();
  c.memory.ac = AcMode::budget;
  c.memory.ac_arg = std::int64_t{57} * 1000 * 1000 * 1000;
  profile::Profile p;
  p.config = advise::solve(model, c, simulate::find_device(c.device.gpu)).settled;
  REQUIRE(p.config.memory.block_modes.front() == AcMode::memory_budget);
  REQUIRE(p.config.memory.memory_budget < 1);
  const profile::Profile again = profile::from_json(profile::to_json(p), "saved");
  CHECK(again.config.memory.block_modes == p.config.memory.block_modes);
  CHECK(again.config.memory.memory_budget == p.config.memory.memory_budget);
}

}  // namespace ac_advisor::test
