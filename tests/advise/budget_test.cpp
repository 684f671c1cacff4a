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
