#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::test {
namespace {

advise::Sweep swept() {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  StepConfig base;
  base.run.batch = 8;
  base.run.seq = 2048;
  base.layout.world = 8;
  base.layout.shard = Sharding::fsdp2;
  return advise::sweep(model, base, advise::default_space(model, base));
}

}  // namespace

TEST_CASE("rows that fit come first, by throughput, and ranks follow") {
  const advise::Sweep sweep = swept();
  REQUIRE(sweep.rows.size() > 100);
  for (std::size_t i = 1; i < sweep.rows.size(); ++i) {
    const advise::Row &a = sweep.rows[i - 1], &b = sweep.rows[i];
    CHECK((a.fits || !b.fits));
    if (a.fits && b.fits) {
      CHECK(a.profile.time.tokens_per_second >= b.profile.time.tokens_per_second);
      CHECK(b.rank == a.rank + 1);
    }
  }
}

TEST_CASE("a sweep tells each simulation once, and what all of them are") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList by_hand{{"--kernels", "fused"}, {"--batch", "2"}};
  const StepConfig base = resolve_options(by_hand);
  advise::Space space = advise::space_around(model, base, by_hand);
  std::atomic<std::size_t> told{0}, most{0}, of{0};
  space.progress = [&](std::size_t done, std::size_t all) {
    ++told;
    of = all;
    if (done == all) ++most;
  };
  const advise::Sweep sweep = advise::sweep(model, base, space);
  CHECK(told == of);
  CHECK(most == 1);
  CHECK(of == sweep.rows.size() + 20);  // the largest batch of the rows that a table shows
  // What was given by hand is settled, but the batch, which is the middle.
  for (const advise::Row& row : sweep.rows)
    CHECK(row.profile.config.memory.kernels == Kernels::fused);
  CHECK(std::any_of(sweep.rows.begin(), sweep.rows.end(),
                    [](const advise::Row& row) { return row.profile.config.run.batch == 4; }));
}

TEST_CASE("no row on the Pareto front is beaten in memory and throughput at once") {
  const advise::Sweep sweep = swept();
  for (const advise::Row& a : sweep.rows) {
    const bool beaten = std::any_of(sweep.rows.begin(), sweep.rows.end(), [&](const auto& b) {
      return b.profile.memory.peak_allocated < a.profile.memory.peak_allocated &&
             b.profile.time.tokens_per_second > a.profile.time.tokens_per_second;
    });
    if (a.pareto) CHECK(!beaten);
  }
}

TEST_CASE("the largest batch fits, and one more sequence does not") {
  const advise::Sweep sweep = swept();
  const advise::Row& row = sweep.rows.front();
  REQUIRE(row.largest_batch > 0);
  StepConfig c = row.profile.config;
  c.run.batch = row.largest_batch;
  CHECK(advise::plan(sweep.model, c, false).fit.fits);
  c.run.batch = row.largest_batch + 1;
  CHECK_FALSE(advise::plan(sweep.model, c, false).fit.fits);
}

TEST_CASE("the savings table is cumulative: each row's saving is the difference of two peaks") {
  const advise::Sweep sweep = swept();
  REQUIRE(sweep.savings.size() == 4);
  for (std::size_t i = 1; i < sweep.savings.size(); ++i)
    CHECK(sweep.savings[i].saved_bytes ==
          sweep.savings[i - 1].peak_bytes - sweep.savings[i].peak_bytes);
}

TEST_CASE("what lives at the peak, by category, sums to the peak on every sample") {
  for (const std::string& name : model::sample_names()) {
    const model::ModelSpec model = model::load_model(name);
    for (AcMode ac : {AcMode::none, AcMode::full, AcMode::selective}) {
      StepConfig c;
      c.run.batch = 1;
      c.run.seq = 512;
      c.memory.ac = ac;
      const profile::Profile p = advise::plan(model, c);
      std::int64_t sum = 0, modules = 0;
      for (std::int64_t bytes : p.memory.at_peak) sum += bytes;
      for (const auto& [module, bytes] : p.memory.at_peak_by_module) modules += bytes;
      INFO(name);
      CHECK(sum == p.memory.peak_allocated);
      CHECK(modules == p.memory.peak_allocated);
    }
  }
}

}  // namespace ac_advisor::test
