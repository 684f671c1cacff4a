#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {
namespace {

profile::Profile within(std::int64_t bytes, const char* name = "llama-3.2-1b") {
  StepConfig c;
  c.run.batch = 4;
  c.run.seq = 1024;
  c.memory.loss = LossKind::lc_ce;
  c.memory.ac = AcMode::budget;
  c.memory.ac_arg = bytes;
  return advise::plan(model::load_model(name), c, false);
}

}  // namespace

TEST_CASE("a larger budget never gives a slower plan, and no plan exceeds its budget") {
  double before = 1e300;
  std::int64_t least = 0;
  try {
    static_cast<void>(within(1));
  } catch (const UserError& error) {
    const std::string text = error.what();
    least = std::stoll(text.substr(text.find("configuration is ") + 17));
    // the way out is a size that does: within a hundredth of a GiB above the least
    const std::size_t at = text.find("use budget:") + 11;
    const double gib = std::stod(text.substr(at));
    CHECK(gib * (1 << 30) >= static_cast<double>(least));
    CHECK((gib - 0.01) * (1 << 30) < static_cast<double>(least));
    CHECK(text.starts_with("--ac budget:1:"));
  }
  REQUIRE(least > 0);
  for (int i = 0; i <= 24; ++i) {
    const std::int64_t budget = least + i * (std::int64_t{400} << 20);
    const profile::Profile p = within(budget);
    CHECK(p.memory.peak_allocated <= budget);
    CHECK(p.budget->recompute_seconds <= before);
    CHECK(p.budget->lower_bound_seconds <= p.budget->recompute_seconds);
    CHECK(p.budget->gap >= 0);
    before = p.budget->recompute_seconds;
  }
  CHECK(before == 0);  // the largest needs no recomputation at all
}

TEST_CASE("a budget of what one mode in all blocks needs is never dominated by that mode") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  for (Kernels kernels : {Kernels::eager, Kernels::fused})
    for (AcMode mode : {AcMode::none, AcMode::full, AcMode::selective, AcMode::attention}) {
      StepConfig c;
      c.run.batch = 4;
      c.run.seq = 1024;
      c.memory.loss = LossKind::lc_ce;
      c.memory.kernels = kernels;
      c.memory.ac = mode;
      const profile::Profile uniform = advise::plan(model, c, false);
      c.memory.ac = AcMode::budget;
      c.memory.ac_arg = uniform.memory.peak_allocated;
      const profile::Profile chosen = advise::plan(model, c, false);
      INFO(to_option(kernels), " ", chosen.budget->plan);
      CHECK(chosen.memory.peak_allocated <= uniform.memory.peak_allocated);
      CHECK(chosen.time.step <= uniform.time.step);
    }
}

TEST_CASE("a budget of what grouped:K, every:K or sqrt needs is never dominated by it") {
  std::vector<std::pair<AcMode, std::int64_t>> modes{{AcMode::sqrt, 0}};
  for (const std::int64_t k : {2, 3, 5, 8}) {
    modes.emplace_back(AcMode::grouped, k);
    modes.emplace_back(AcMode::every, k);
  }
  struct Case {
    const char* model;
    std::int64_t batch, seq;
    LossKind loss;
    Kernels kernels;
  };
  const Case cases[] = {{"llama-3.2-1b", 2, 1024, LossKind::ce, Kernels::eager},
                        {"llama-3.2-1b", 16, 2048, LossKind::lc_ce, Kernels::fused},
                        {"tiny-llama", 1, 16, LossKind::ce, Kernels::eager},
                        {"gemma-2-2b", 1, 2048, LossKind::lc_ce, Kernels::eager}};
  for (const Case& k : cases) {
    const model::ModelSpec model = model::load_model(k.model);
    for (const auto& [mode, arg] : modes) {
      if (arg > model.layers) continue;
      StepConfig c;
      c.run.batch = k.batch;
      c.run.seq = k.seq;
      c.memory.loss = k.loss;
      c.memory.kernels = k.kernels;
      c.memory.ac = mode;
      c.memory.ac_arg = arg;
      const profile::Profile uniform = advise::plan(model, c, false);
      const std::string word = ac_option(c);
      c.memory.ac = AcMode::budget;
      c.memory.ac_arg = uniform.memory.peak_allocated;
      const profile::Profile chosen = advise::plan(model, c, false);
      INFO(k.model, " ", word, ": ", chosen.budget->plan);
      CHECK(chosen.memory.peak_allocated <= uniform.memory.peak_allocated);
      CHECK(chosen.time.step <= uniform.time.step);
    }
  }
}

TEST_CASE("of adapters' steps that wait for the host no mode within the budget is faster") {
  // Launches cost such a step more than the kernels that are run again.
  struct Case {
    const char* model;
    OptionList options;
  };
  const Case cases[] = {
      {"llama-3.2-1b", {{"--lora", "16"}, {"--batch", "1"}, {"--seq", "512"}}},
      {"qwen3-0.6b",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--batch", "2"}, {"--seq", "1024"}}}};
  for (const Case& k : cases) {
    const model::ModelSpec model = model::load_model(k.model);
    const auto planned = [&](const std::string& ac) {
      OptionList options = k.options;
      options.emplace_back("--ac", ac);
      return advise::plan(model, resolve_options(options), false);
    };
    for (const char* ac :
         {"none", "full", "attention", "every:2", "every:4", "grouped:4", "sqrt"}) {
      const profile::Profile one = planned(ac);
      const profile::Profile chosen =
          planned("budget:" + std::to_string(one.memory.peak_allocated));
      INFO(k.model, " ", ac, ": ", chosen.budget->plan);
      CHECK(chosen.memory.peak_allocated <= one.memory.peak_allocated);
      CHECK(chosen.time.step <= one.time.step);
    }
  }
}

TEST_CASE("what only segments of several blocks reach is feasible, and said as a mode") {
  // With long rows and many layers the inputs of all blocks are more than one block's activations.
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  StepConfig c;
  c.run.batch = 16;
  c.run.seq = 2048;
  c.memory.loss = LossKind::lc_ce;
  c.memory.kernels = Kernels::fused;
  c.memory.ac = AcMode::full;
  const std::int64_t full = advise::plan(model, c, false).memory.peak_allocated;
  c.memory.ac = AcMode::grouped;
  c.memory.ac_arg = 2;
  const std::int64_t grouped = advise::plan(model, c, false).memory.peak_allocated;
  c.memory.ac = AcMode::budget;
  c.memory.ac_arg = std::min(full, grouped);
  const profile::Profile chosen = advise::plan(model, c, false);
  CHECK(chosen.memory.peak_allocated <= std::min(full, grouped));
  CHECK(chosen.budget->least_feasible <= std::min(full, grouped));
}

TEST_CASE("a budget below what is feasible says the least feasible one") {
  CHECK_THROWS_WITH_AS(static_cast<void>(within(std::int64_t{1} << 30)),
                       doctest::Contains("least peak of this configuration is"), UserError);
}

TEST_CASE("where attention is eager, recomputing its core alone is an intermediate choice") {
  // gemma2's scores are B x heads x S x S: dropping them saves much for little
  const profile::Profile none = within(std::int64_t{1} << 40, "gemma-2-2b");
  const profile::Profile some =
      within(none.memory.peak_allocated - (std::int64_t{1} << 30), "gemma-2-2b");
  CHECK(some.budget->plan.find("attention") != std::string::npos);
}

}  // namespace ac_advisor::test
