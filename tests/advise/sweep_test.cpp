#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <set>
#include <utility>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "ac_advisor/reports/sweep_diff.hpp"
#include "advise/held_at_least.hpp"
#include "advise/least_costs.hpp"
#include "advise/variants.hpp"
#include "model/options_preset.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

StepConfig base_of_swept() {
  StepConfig base;
  base.run.batch = 8;
  base.run.seq = 2048;
  base.layout.world = 8;
  base.layout.shard = Sharding::fsdp2;
  return base;
}

/// Swept once for all that look at it.
const advise::Sweep& swept() {
  static const advise::Sweep sweep = [] {
    const model::ModelSpec model = model::load_model("llama-3.2-1b");
    const StepConfig base = base_of_swept();
    return advise::sweep(model, base, advise::default_space(model, base));
  }();
  return sweep;
}

bool has_row(const advise::Sweep& sweep, const StepConfig& config) {
  return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                     [&](const advise::Row& row) { return row.profile.config == config; });
}

std::vector<std::string> framework_words() {
  const std::vector<std::string_view> names = options::framework_names();
  return {names.begin(), names.end()};
}

}  // namespace

TEST_CASE("a sweep's rows, Pareto front, largest batches and savings") {
  const StepConfig base = base_of_swept();
  const advise::Sweep& sweep = swept();
  SUBCASE("rows that can be had and fit come first, by throughput, and ranks follow") {
    REQUIRE(sweep.rows.size() > 100);
    for (std::size_t i = 1; i < sweep.rows.size(); ++i) {
      const advise::Row &a = sweep.rows[i - 1], &b = sweep.rows[i];
      CHECK((a.fits || !b.fits));
      CHECK((b.rank == 0) == (!b.fits || !b.unavailable.empty()));
      if (b.rank == 0) continue;
      CHECK(a.profile.time.tokens_per_second >= b.profile.time.tokens_per_second);
      CHECK(b.rank == a.rank + 1);
    }
  }
  SUBCASE("no row on the Pareto front is beaten in memory and throughput at once") {
    for (const advise::Row& a : sweep.rows) {
      const bool beaten = std::any_of(sweep.rows.begin(), sweep.rows.end(), [&](const auto& b) {
        return b.unavailable.empty() &&
               b.profile.memory.peak_allocated < a.profile.memory.peak_allocated &&
               b.profile.time.tokens_per_second > a.profile.time.tokens_per_second;
      });
      if (a.pareto) CHECK(!beaten);
      if (a.pareto) CHECK(a.unavailable.empty());
    }
  }
  SUBCASE("the largest batch fits, and none of the next that its peak would allow does") {
    const advise::Variants variants(sweep.model, base, std::nullopt);
    std::size_t exact = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      const advise::Row& row = sweep.rows[i];
      REQUIRE(row.largest_batch > 0);
      const auto fits = [&](std::int64_t batch) {
        StepConfig c = row.profile.config;
        c.run.batch = batch;
        return advise::plan(sweep.model, variants.settled(c), false).fit.fits;  // Liger's chunk
      };
      CHECK(fits(row.largest_batch));
      if (!row.largest_batch_exact) continue;
      ++exact;
      for (std::int64_t more = 1; more <= 6; ++more) CHECK_FALSE(fits(row.largest_batch + more));
    }
    CHECK(exact > 10);
  }
  SUBCASE("the savings table is cumulative: each row's saving is the difference of two peaks") {
    REQUIRE(sweep.savings.size() == 4);
    for (std::size_t i = 1; i < sweep.savings.size(); ++i)
      CHECK(sweep.savings[i].saved_bytes ==
            sweep.savings[i - 1].peak_bytes - sweep.savings[i].peak_bytes);
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
  // What was given by hand is settled, but the batch, which is cut into smaller ones.
  for (const advise::Row& row : sweep.rows)
    CHECK(row.profile.config.memory.kernels == Kernels::fused);
  CHECK(std::any_of(sweep.rows.begin(), sweep.rows.end(), [](const advise::Row& row) {
    return row.profile.config.run.batch == 1 && row.profile.config.run.grad_accum == 2;
  }));
}

TEST_CASE(
    "under every framework what is recommended exports to it, and what it lacks has no rank") {
  struct Case {
    std::string framework;
    const char *name, *world;
  };
  std::vector<Case> cases{{"hf", "llama-3.2-1b", "8"}, {"torchtitan", "llama-3.1-8b", "1"}};
  for (const std::string& framework : framework_words())
    for (const char* world : {"1", "8"})
      if ((!sanitized || (framework == "deepspeed" && std::string(world) == "8")) &&
          framework != "litgpt" &&  // whose script takes the options: there is no file of them
          (framework != "verl" || std::string(world) != "1"))  // whose worker shards
        cases.push_back({framework, "tiny-llama", world});
  for (const auto& [bound_framework, bound_name, bound_world] : cases) {
    const auto& framework = bound_framework;
    const auto& name = bound_name;
    const auto& world = bound_world;
    model::ModelSpec model = model::load_model(name);
    if (framework == "torchtitan") model.tied_embeddings = false;  // its llama ties nothing
    const OptionList hand{
        {"--framework", framework}, {"--batch", "4"}, {"--seq", "1024"}, {"--world", world}};
    const StepConfig base = resolve_options(hand);
    advise::Space space = advise::default_space(model, base);
    space.hand = hand;
    space.largest_batches = 0;
    const advise::Sweep sweep = advise::sweep(model, base, space);
    CAPTURE(framework);
    CAPTURE(std::string(name));
    CAPTURE(std::string(world));
    // Llama-3.1-8B with fp32 masters on one GPU fits nowhere.
    const bool some = sweep.recommended < sweep.rows.size();
    CHECK(some == (std::string(name) != "llama-3.1-8b"));
    std::size_t lacking = 0;
    for (const advise::Row& row : sweep.rows) {
      const std::string target = advise::export_target_of(framework);
      bool refused = false;
      try {
        static_cast<void>(advise::export_setting(target, model, row.profile.config));
      } catch (const UserError&) {
        refused = true;
      }
      if (refused) {
        ++lacking;
        CHECK(row.rank == 0);
        CHECK_FALSE(row.pareto);
        CHECK(row.why.find("has no equivalent") != std::string::npos);
      } else if (row.fits && row.unavailable.empty()) {
        CHECK(row.rank > 0);
      }
    }
    // What the framework lacks stays in the list; what Megatron-core's layers lack is refused.
    CHECK((lacking > 0 || base.megatron()));
    if (some) CHECK(sweep.rows[sweep.recommended].rank == 1);
  }
}

/// Rows of a framework's sweep on eight ranks with that sharding, and how many of them are ranked.
std::pair<int, int> rows_and_ranked(const char* framework, Sharding shard) {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const StepConfig base = resolve_options({{"--framework", framework}, {"--world", "8"}});
  advise::Space space = advise::default_space(model, base);
  space.largest_batches = 0;
  space.set("--ac", {"none", "full"});
  space.set("--batch", {"1"});
  space.set("--loss", {"ce"});
  int rows = 0, ranked = 0;
  for (const advise::Row& row : advise::sweep(model, base, space).rows) {
    if (row.profile.config.layout.shard != shard) continue;
    ++rows;
    if (row.rank > 0) ++ranked;
  }
  return {rows, ranked};
}

TEST_CASE("under Megatron fsdp2 is not ranked, and DeepSpeed's sweep has its own ZeRO 3 instead") {
  CHECK(rows_and_ranked("megatron", Sharding::fsdp2).first == 0);
  CHECK(rows_and_ranked("megatron", Sharding::zero1).second > 0);
  CHECK(rows_and_ranked("deepspeed", Sharding::fsdp2).first == 0);
  CHECK(rows_and_ranked("deepspeed", Sharding::zero3).second > 0);
}

TEST_CASE("Megatron's layouts of a mixture share its experts, and what is left out does not fit") {
  model::ModelSpec model = model::load_model("mixtral-8x7b");
  model.layers = 7;  // of four stages the last has one block, the others two
  model.window.resize(7);
  model.sparse_block.resize(7);
  const OptionList hand{{"--framework", "megatron"},
                        {"--world", "16"},
                        {"--batch", "1"},
                        {"--seq", "512"},
                        {"--gpu", "rtx-4090"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  space.set("--tp", {"1", "2"});
  space.set("--ac", {"none", "full"});
  space.set("--pp-schedule", {"1f1b"});
  space.set("--loss", {"ce"});
  const advise::Sweep sweep = advise::sweep(model, base, space);
  std::size_t left = 0, shared = 0, uneven = 0;
  for (const StepConfig& c : advise::combinations(model, base, space)) {
    const profile::Profile p = advise::plan(model, c, false);
    CHECK(advise::held_at_least(model, c) <= p.memory.peak_allocated);
    if (has_row(sweep, c)) {
      shared += c.layout.ep > 1 ? 1 : 0;
      uneven += c.layout.pp_layers == std::vector<std::int64_t>{2, 2, 2, 1} ? 1 : 0;
    } else {
      ++left;
      CHECK_FALSE(p.fit.fits);
    }
  }
  CHECK(left > 0);
  CHECK(shared > 0);
  CHECK(uneven > 0);
}

TEST_CASE("the savings table keeps what the framework lacks, and marks it") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const StepConfig base = resolve_options({{"--batch", "4"}, {"--world", "8"}});
  advise::Space space = advise::default_space(model, base);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  REQUIRE(sweep.savings.size() == 4);
  CHECK(sweep.savings[2].unavailable.empty());
  CHECK(sweep.savings[3].technique == "+ LC-CE");
  CHECK(sweep.savings[3].unavailable.find("--loss lc-ce") != std::string::npos);
}

TEST_CASE("the savings table takes FSDP with layers in parts whose ranks have all tokens") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const auto around =
      advise::resolve(model, {{"--framework", "automodel"}, {"--world", "8"}, {"--tp", "2"}});
  const advise::Sweep sweep = advise::sweep(model, around.config, advise::Space{});
  REQUIRE(sweep.savings.size() >= 2);
  CHECK(sweep.savings[1].technique == "+ tensor parallelism (tp 2) + FSDP (dp 4)");
  CHECK(sweep.not_planned.empty());
}

TEST_CASE("the savings table names the chunk that Liger chooses for the batch") {
  // The next power of two of 4 x 2048 / ceil(128256 / 2048) = 130.03...
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList hand{{"--framework", "liger"}, {"--batch", "4"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  CHECK(sweep.savings.back().technique == "+ chunked:256");
  CHECK(sweep.savings.back().config.memory.chunk_tokens == 256);
  CHECK(sweep.savings.back().unavailable.empty());
}

TEST_CASE("a loss that no plan has under autocast is told beside the savings table") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const auto [hand, derived, base, notes, others] =
      advise::resolve(model, {{"--framework", "torchtitan"}, {"--batch", "4"}});
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  for (const advise::Saving& saving : sweep.savings)
    CHECK(saving.technique.find("LC-CE") == std::string::npos);
  REQUIRE(sweep.not_planned.size() == 1);
  CHECK(sweep.not_planned[0].technique == "+ LC-CE");
  CHECK(sweep.not_planned[0].why.starts_with("--autocast bf16 --loss lc-ce: "));
  for (const std::string& text : {reports::table(sweep, {}), reports::markdown(sweep)}) {
    CHECK(text.find("+ LC-CE (n/a)") != std::string::npos);
    CHECK(text.find("n/a: + LC-CE: --autocast bf16 --loss lc-ce") != std::string::npos);
  }
  const std::string json = reports::json(sweep);
  const advise::Sweep again = reports::sweep_from_json(json, "sweep.json");
  REQUIRE(again.not_planned.size() == 1);
  CHECK(again.not_planned[0].why == sweep.not_planned[0].why);
}

TEST_CASE("the global batch stays: micro-batch x accumulation x ranks is that of the base") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const StepConfig base = resolve_options(
      {{"--batch", "12"}, {"--grad-accum", "2"}, {"--world", "2"}, {"--seq", "64"}});
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (const StepConfig& c :
       advise::combinations(model, base, advise::default_space(model, base))) {
    CHECK(c.run.batch * c.run.grad_accum * c.layout.data_ranks() == 48);
    if (c.layout.tp == 1) seen.emplace(c.run.batch, c.run.grad_accum);
  }
  // the divisors of 12 x 2 = 24 about 12: two below, one above
  const std::set<std::pair<std::int64_t, std::int64_t>> made{{6, 4}, {8, 3}, {12, 2}, {24, 1}};
  CHECK((seen == made));
  seen.clear();
  for (const StepConfig& c : advise::combinations(model, base, advise::varying_space(model, base)))
    seen.emplace(c.run.batch, c.run.grad_accum);
  const std::set<std::pair<std::int64_t, std::int64_t>> varied{{6, 2}, {12, 2}, {24, 2}};
  CHECK((seen == varied));
}

TEST_CASE(
    "layers are split over the divisors of the world in a node, and each layout has its best") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand{{"--framework", "torchtitan"},
                        {"--world", "12"},
                        {"--node-size", "6"},
                        {"--batch", "1"},
                        {"--seq", "3072"},
                        {"--ac", "full"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  std::set<std::int64_t> degrees;
  for (const advise::Row& row : sweep.rows) {
    const StepConfig& c = row.profile.config;
    degrees.insert(c.layout.tp);
    CHECK(c.run.batch * c.run.grad_accum * c.layout.data_ranks() == 12);
  }
  // 1, 2, 3, 4 and 6 divide 12 and are no more than a node; 3 and 6 divide neither 8 heads of keys
  // nor a vocabulary of 128256.
  CHECK((degrees == std::set<std::int64_t>{1, 2, 4}));
  const auto layout_of = [](const advise::Row& row) {
    const Layout& layout = row.profile.config.layout;
    return std::pair(layout.tp, layout.pp);
  };
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (const advise::Row& row : sweep.rows) seen.insert(layout_of(row));
  // The divisors of 12 that leave two ranks for FSDP2.
  for (const std::int64_t pp : {1, 2, 3, 4, 6}) CHECK(seen.contains({1, pp}));
  CHECK(!seen.contains({1, 12}));
  const std::vector<advise::LayoutChoice> layouts = advise::layouts(sweep);
  REQUIRE(layouts.size() == seen.size());
  CHECK(layouts.front().row == 0);
  for (const advise::LayoutChoice& choice : layouts) {
    const advise::Row& best = sweep.rows.at(choice.row);
    CHECK(layout_of(best) == std::pair(choice.tp, choice.pp));
    for (const advise::Row& row : sweep.rows)
      if (layout_of(row) == layout_of(best) && row.rank > 0) CHECK(best.rank <= row.rank);
  }
  for (const std::string& text : {reports::table(sweep, {}), reports::markdown(sweep)}) {
    CHECK(text.find("Layouts, the best of each") != std::string::npos);
    CHECK(text.find("tp 4: ") != std::string::npos);
  }
  // A layout that was given is the only one.
  OptionList given_tp = hand;
  given_tp.emplace_back("--tp", "2");
  const StepConfig fixed = resolve_options(given_tp);
  for (const StepConfig& c :
       advise::combinations(model, fixed, advise::space_around(model, fixed, given_tp)))
    CHECK(c.layout.tp == 2);
}

TEST_CASE("where nothing of the default framework fits, layers are split over ranks") {
  const model::ModelSpec model = model::load_model("llama-3.1-405b");
  const auto advised = [&](const OptionList& by_hand) {
    return advise::advise_any(
        model, advise::resolve(model, by_hand), [&](const advise::Resolved& around) {
          advise::Space space = advise::space_around(model, around.config, around.options);
          space.largest_batches = 0;
          space.set("--ac", {"full"});
          space.set("--loss", {"ce"});
          space.keep("--kernels", around.config);
          if (around.config.runtime.framework == "torchtitan") {
            space.set("--pp", {"1"});
            space.set("--cp", {"1"});
          }
          return space;
        });
  };
  const OptionList many{{"--world", "512"}, {"--batch", "1"}, {"--seq", "16384"}};
  const advise::Advice found = advised(many);
  CHECK(found.resolved.config.runtime.framework == "torchtitan");
  CHECK(found.sweep.base.runtime.framework == "torchtitan");
  REQUIRE(found.sweep.recommended == 0);
  CHECK(found.sweep.rows[0].profile.config.layout.tp > 1);
  CHECK(found.sweep.recommendation.starts_with(
      "nothing that hf has fits on 512 ranks; --framework torchtitan splits layers over them: "
      "use full ce eager tp"));

  // A framework that was asked for stays.
  OptionList by_hand = many;
  by_hand.emplace_back("--framework", "hf");
  const advise::Advice stayed = advised(by_hand);
  CHECK(stayed.sweep.base.runtime.framework == "hf");
  CHECK(stayed.sweep.recommendation.ends_with(
      "; --framework torchtitan also splits layers over ranks"));

  const advise::Advice none =
      advised({{"--world", "8"}, {"--batch", "1"}, {"--seq", "8192"}, {"--gpu", "h100-80gb"}});
  CHECK(none.sweep.base.runtime.framework == "hf");
  CHECK(none.sweep.recommendation.find("; --framework torchtitan, which splits layers over "
                                       "ranks: nothing fits; the nearest, ") != std::string::npos);
}

TEST_CASE("where nothing of DeepSpeed fits on the device, ZeRO 3 has parameters on the host") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList by_hand{{"--framework", "deepspeed"},
                           {"--gpu", "rtx-4090"},
                           {"--world", "8"},
                           {"--batch", "1"},
                           {"--seq", "1024"},
                           {"--ac", "full"}};
  const advise::Advice found = advise::advise_any(
      model, advise::resolve(model, by_hand), [&](const advise::Resolved& around) {
        advise::Space space = advise::space_around(model, around.config, around.options);
        space.largest_batches = 0;
        return space;
      });
  REQUIRE(found.sweep.recommended < found.sweep.rows.size());
  const StepConfig& chosen = found.sweep.rows[found.sweep.recommended].profile.config;
  CHECK(chosen.layout.shard == Sharding::zero3);
  CHECK(chosen.memory.offload == Offload::parameters);
}

TEST_CASE("a pipeline that a sweep does not simulate does not fit") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand{{"--framework", "torchtitan"},
                        {"--world", "8"},
                        {"--batch", "2"},
                        {"--seq", "4096"},
                        {"--tp", "1"},
                        {"--gpu", "l40s"},
                        {"--shard", "fsdp2"},
                        {"--kernels", "eager"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  space.set("--ac", {"none", "full", "selective"});
  const advise::Sweep sweep = advise::sweep(model, base, space);
  CHECK(sweep.too_heavy > 0);
  std::size_t left = 0, fitting = 0;
  for (const StepConfig& c : advise::combinations(model, base, space)) {
    const profile::Profile p = advise::plan(model, c, false);
    if (c.layout.pp > 1) {
      fitting += p.fit.fits ? 1 : 0;
      CHECK(advise::held_at_least(model, c) <= p.memory.peak_allocated);
    }
    if (has_row(sweep, c)) continue;
    ++left;
    CHECK(!p.fit.fits);
    CHECK(c.layout.pp > 1);
  }
  CHECK(fitting > 0);
  CHECK(left == sweep.too_large + sweep.too_heavy);
  const advise::Sweep again = reports::sweep_from_json(reports::json(sweep), "sweep.json");
  CHECK(again.too_large == sweep.too_large);
  CHECK(again.too_heavy == sweep.too_heavy);
}

TEST_CASE("a sweep plans a pipeline's ranks that differ, which stand for those that are alike") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  for (const char* const schedule : {"1f1b", "gpipe", "interleaved:2"})
    for (const char* const ac : {"none", "full", "selective"})
      for (const char* const layers : {"4", "8"}) {
        const StepConfig c = resolve_options({{"--framework", "torchtitan"},
                                              {"--world", "16"},
                                              {"--pp", layers},
                                              {"--pp-schedule", schedule},
                                              {"--grad-accum", "16"},
                                              {"--seq", "1024"},
                                              {"--ac", ac}});
        CAPTURE(schedule);
        CAPTURE(ac);
        const profile::Profile all = advise::plan(model, c), few = advise::plan(model, c, false);
        REQUIRE(all.memory.ranks.size() == static_cast<std::size_t>(c.layout.pp));
        CHECK(all.memory.peak_allocated == few.memory.peak_allocated);
        CHECK(all.fit.required == few.fit.required);
        CHECK(all.time.step == doctest::Approx(few.time.step).epsilon(1e-3));
      }
}

TEST_CASE("a sweep splits a mixture's experts or shares them, and compiles them in parts") {
  const model::ModelSpec model = model::load_model("qwen3-30b-a3b");
  const auto [hand, derived, base, notes, others] = advise::resolve(
      model,
      {{"--framework", "torchtitan"}, {"--world", "8"}, {"--seq", "1024"}, {"--ac", "full"}});
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  std::int64_t most_shared = 1, most_split = 1;
  for (const auto& layout : advise::layouts(sweep)) {
    CHECK((layout.tp == 1 || layout.ep == 1));
    most_shared = std::max(most_shared, layout.ep);
    most_split = std::max(most_split, layout.tp);
  }
  CHECK(most_shared == 8);
  CHECK(most_split > 1);
  CHECK(std::none_of(
      sweep.not_planned.begin(), sweep.not_planned.end(),
      [](const advise::NotPlanned& left) { return left.technique == "compiled blocks"; }));
}

TEST_CASE(
    "compiled blocks are swept beside eager and fused kernels, with TorchTitan its loss too") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand{{"--framework", "torchtitan"}, {"--world", "8"}, {"--seq", "1024"}};
  const StepConfig base = resolve_options(hand);
  const auto all = advise::combinations(model, base, advise::space_around(model, base, hand));
  const auto has = [&](Kernels kernels, LossKind loss) {
    return std::any_of(all.begin(), all.end(), [&](const StepConfig& c) {
      return c.memory.kernels == kernels && c.memory.loss == loss;
    });
  };
  CHECK(has(Kernels::compiled, LossKind::ce));
  CHECK(has(Kernels::compiled, LossKind::ce_compiled));
  CHECK(has(Kernels::eager, LossKind::ce_compiled));
  for (const StepConfig& c : all) {
    const AcMode ac = c.memory.ac;
    if (c.memory.kernels == Kernels::compiled)
      CHECK((ac == AcMode::none || ac == AcMode::full || ac == AcMode::selective));
  }
}

TEST_CASE("options that a row has of its own are settled as if they had been typed") {
  // TorchTitan's fp32 parameters compute in bf16 only where FSDP2 gathers them so: what plan makes
  // of each row's own options is the row.
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* framework : {"torchtitan", "liger", "automodel"}) {
    const OptionList hand{{"--framework", framework},
                          {"--world", "2"},
                          {"--keep-last-block", ""},
                          {"--fsdp-unit", "block"}};
    const StepConfig base = resolve_options(hand);
    advise::Space space = advise::default_space(model, base);
    space.hand = hand;
    std::size_t rows = 0;
    for (const StepConfig& c : advise::combinations(model, base, space)) {
      OptionList typed{{"--framework", framework},
                       {"--world", "2"},
                       {"--shard", shard_option(c)},
                       {"--ac", ac_option(c)},
                       {"--loss", loss_option(c)},
                       {"--kernels", to_option(c.memory.kernels)},
                       {"--tp", std::to_string(c.layout.tp)},
                       {"--transformer-impl", to_option(c.run.transformer_impl)},
                       {"--fsdp-unit", "block"},
                       {"--batch", std::to_string(c.run.batch)},
                       {"--grad-accum", std::to_string(c.run.grad_accum)}};
      if (c.memory.scope == AcScope::submodule && c.memory.ac == AcMode::full)
        typed.emplace_back("--ac-scope", "submodule");
      else if (c.memory.ac == AcMode::full)
        typed.emplace_back("--ac-scope", "block");
      if (c.layout.gathers()) typed.emplace_back("--keep-last-block", "");
      StepConfig as_typed = resolve_options(typed);
      as_typed.memory.scope = c.memory.scope;  // says nothing with the other modes
      CHECK((as_typed == c));
      ++rows;
    }
    CHECK(rows > 20);
  }
}

TEST_CASE("the largest batch is sought for as many rows as are asked for") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const StepConfig base = resolve_options({{"--batch", "2"}, {"--seq", "64"}, {"--gpu", "cpu"}});
  advise::Space space = advise::default_space(model, base);
  space.largest_batches = 30;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  REQUIRE(sweep.rows.size() > 31);
  CHECK(sweep.rows[29].largest_batch > 0);
  CHECK(sweep.rows[30].largest_batch == 0);
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

TEST_CASE("with TRL on one GPU offload is ranked beside recomputation, with its copies' time") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const StepConfig base = resolve_options({{"--framework", "trl"},
                                           {"--autocast", "none"},
                                           {"--batch", "4"},
                                           {"--seq", "2048"},
                                           {"--loss", "ce"}});
  advise::Space space = advise::default_space(model, base);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  std::size_t offloaded = 0;
  for (const advise::Row& row : sweep.rows) {
    if (row.profile.config.memory.offload == Offload::none) continue;
    ++offloaded;
    CHECK(row.label.find(" offload") != std::string::npos);
    StepConfig kept = row.profile.config;
    kept.memory.offload = Offload::none;
    const profile::Profile without = advise::plan(model, kept);
    CHECK(row.profile.memory.peak_allocated < without.memory.peak_allocated);
    CHECK(row.profile.time.step >= without.time.step);
    // All of it goes to the host, at most at the rate of PCIe 5.
    CHECK(row.profile.time.step > static_cast<double>(row.profile.memory.host_pinned) / 63e9);
  }
  CHECK(offloaded >= 2);
  const StepConfig eight = resolve_options({{"--framework", "trl"}, {"--world", "8"}});
  for (const advise::Axis& axis : advise::default_space(model, eight).axes)
    CHECK(axis.option != "--offload");
}

namespace {

using Words = std::vector<std::string>;

/// Several nodes of a small model, with one micro-batch size and few modes: small enough to be
/// simulated whole.
advise::Space many_layouts(const model::ModelSpec& model, const OptionList& hand) {
  advise::Space space = advise::space_around(model, resolve_options(hand), hand);
  space.largest_batches = 0;
  space.set("--ac",
            sanitized ? Words{"none", "full"} : Words{"none", "full", "selective", "every:2"});
  space.set("--kernels", {"eager"});
  space.set("--pp-schedule", sanitized ? Words{"1f1b"} : Words{"1f1b", "gpipe", "interleaved:2"});
  return space;
}

OptionList many_ranks(const char* gpu) {
  return {{"--framework", "torchtitan"},
          {"--world", "16"},
          {"--batch", "2"},
          {"--seq", "4096"},
          {"--gpu", gpu}};
}

/// A space of many layouts of a small model on a device of any size, seeded.
struct DrawnSpace {
  model::ModelSpec model;
  OptionList hand;
  advise::Space space;
};

DrawnSpace drawn_space(unsigned seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](const std::vector<std::string>& all) {
    return all[random() % all.size()];
  };
  const auto some_of = [&](std::vector<std::string> all, std::size_t count) {
    for (std::size_t i = all.size() - 1; i > 0; --i) std::swap(all[i], all[random() % (i + 1)]);
    all.resize(std::min(count, all.size()));
    return all;
  };
  const std::string name = one_of({"llama-3.2-1b", "llama-3.1-8b", "qwen2.5-7b"});
  DrawnSpace drawn{model::load_model(name),
                   {{"--framework", "torchtitan"},
                    {"--world", one_of({"16", "24", "32"})},
                    {"--batch", one_of({"1", "2", "4"})},
                    {"--seq", one_of({"1024", "2048", "4096"})},
                    {"--gpu", one_of({"12GiB", "16GiB", "24GiB", "32GiB", "48GiB", "80GiB"})}},
                   {}};
  drawn.space = advise::space_around(drawn.model, resolve_options(drawn.hand), drawn.hand);
  drawn.space.largest_batches = 0;
  // What asks for nothing comes first, as in a sweep of its own.
  std::vector<std::string> modes{"none", "full", "selective"};
  for (const std::string& every :
       some_of({"every:2", "every:3", "every:5", "every:6", "every:8"}, 3))
    modes.push_back(every);
  drawn.space.set("--ac", std::move(modes));
  drawn.space.set("--kernels", {one_of({"eager", "compiled"})});
  drawn.space.set("--pp-schedule", {"1f1b", one_of({"gpipe", "interleaved:2"})});
  return drawn;
}

/// AC_ADVISOR_DRAWS=50 for as many.
unsigned draws() {
  if (sanitized) return 1;
  const char* const asked = std::getenv("AC_ADVISOR_DRAWS");
  return asked == nullptr ? 3 : static_cast<unsigned>(std::stoul(asked));
}

struct Searched {
  advise::Sweep all, few;  ///< every row simulated, and those that a search simulates
};

/// Searches the space, and compares what a search promises with what simulating all of it shows.
Searched compared(const model::ModelSpec& model, const OptionList& hand, advise::Space space) {
  const StepConfig base = resolve_options(hand);
  space.simulate_up_to = 100000;
  const advise::Sweep all = advise::sweep(model, base, space);
  space.simulate_up_to = 0;
  const advise::Sweep few = advise::sweep(model, base, space);
  CHECK(few.configurations <= all.configurations);
  CHECK(few.configurations + few.too_slow + few.too_heavy + few.too_large ==
        all.configurations + all.too_heavy + all.too_large);
  for (std::size_t i = 0; i < std::min(advise::exact_rows, all.rows.size()); ++i) {
    if (all.rows[i].rank == 0) break;
    REQUIRE(i < few.rows.size());
    CHECK(few.rows[i].label == all.rows[i].label);
    CHECK(few.rows[i].pareto == all.rows[i].pareto);
  }
  for (const advise::LayoutChoice& choice : advise::layouts(all)) {
    const advise::Row& best = all.rows[choice.row];
    if (!best.fits) continue;
    const auto choices = advise::layouts(few);
    const auto same = std::find_if(choices.begin(), choices.end(), [&](const auto& other) {
      return other.tp == choice.tp && other.cp == choice.cp && other.pp == choice.pp;
    });
    REQUIRE(same != choices.end());
    CHECK(few.rows[same->row].label == best.label);
  }
  const advise::Sweep again = reports::sweep_from_json(reports::json(few), "sweep.json");
  CHECK(again.too_slow == few.too_slow);
  return {all, few};
}

}  // namespace

TEST_CASE("a search of many layouts shows the rows that simulating all of them shows") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  for (const char* gpu : {"h100-80gb", "l40s"}) {
    if (sanitized && std::string(gpu) == "l40s") continue;
    CAPTURE(std::string(gpu));
    const OptionList hand = many_ranks(gpu);
    const auto [all, few] = compared(model, hand, many_layouts(model, hand));
    const std::size_t pruned = few.too_slow + few.too_heavy + few.too_large;
    CHECK(pruned > (sanitized ? 0 : few.configurations));  // of a smaller space fewer
    CHECK(few.rows.size() >= advise::exact_rows);
  }
}

TEST_CASE("a search of drawn spaces shows the rows that simulating all of them shows") {
  for (unsigned seed = 0; seed < draws(); ++seed) {
    CAPTURE(seed);
    const DrawnSpace drawn = drawn_space(seed);
    compared(drawn.model, drawn.hand, drawn.space);
  }
}

TEST_CASE("no simulated layout holds less, or takes less time, than its bounds") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand = many_ranks("h100-80gb");
  const StepConfig base = resolve_options(hand);
  const std::vector<StepConfig> list = advise::combinations(model, base, many_layouts(model, hand));
  const advise::ReferenceSteps references(model, list);
  std::size_t bounded = 0;
  for (std::size_t i = 0; i < list.size(); i += 7) {
    const StepConfig& c = list[i];
    const profile::Profile p = advise::plan(model, c, false);
    const double least = advise::seconds_at_least(model, c, references);
    bounded += least > 0.5 * p.time.step ? 1 : 0;
    CAPTURE(ac_option(c));
    CAPTURE(loss_option(c));
    CAPTURE(shard_option(c));
    CAPTURE(c.layout.tp);
    CAPTURE(c.layout.pp);
    CAPTURE(c.run.batch);
    CAPTURE(c.run.grad_accum);
    CHECK(least <= p.time.step);
    CHECK(advise::held_at_least(model, c, &references) <= p.memory.peak_allocated);
  }
  CHECK(bounded > list.size() / 14);
}

TEST_CASE("sequences are split over ranks that keep 2,048 tokens, with as many sequences a step") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand{{"--framework", "torchtitan"},
                        {"--world", "64"},
                        {"--batch", "1"},
                        {"--seq", "32768"},
                        {"--ac", "full"},
                        {"--tp", "1"},
                        {"--pp", "1"}};
  const StepConfig base = resolve_options(hand);
  std::set<std::int64_t> rings;
  for (const StepConfig& c :
       advise::combinations(model, base, advise::space_around(model, base, hand))) {
    rings.insert(c.layout.cp);
    CHECK(c.run.batch * c.run.grad_accum * c.layout.data_ranks() == 64);
    // Rings are swept with FSDP2 over whole layers (docs/layouts.md).
    if (c.layout.cp > 1) CHECK(c.layout.shard == Sharding::fsdp2);
  }
  CHECK((rings == std::set<std::int64_t>{1, 2, 4, 8, 16}));
  // One that was given by hand is kept.
  OptionList given = hand;
  given.emplace_back("--cp", "4");
  given.emplace_back("--shard", "fsdp2");
  const StepConfig fixed = resolve_options(given);
  for (const StepConfig& c :
       advise::combinations(model, fixed, advise::space_around(model, fixed, given)))
    CHECK(c.layout.cp == 4);
}

TEST_CASE("ranks that share experts are swept where transformers has them") {
  const model::ModelSpec model = model::load_model("mixtral-8x7b");
  const OptionList hand{
      {"--framework", "hf"}, {"--world", "16"}, {"--batch", "1"}, {"--seq", "4096"}};
  const StepConfig base = resolve_options(hand);
  std::set<std::int64_t> shared;
  for (const StepConfig& c :
       advise::combinations(model, base, advise::space_around(model, base, hand))) {
    shared.insert(c.layout.ep);
    if (c.layout.ep > 1) CHECK(c.layout.gathers());
    if (c.layout.ep > 1 && c.memory.loss == LossKind::ce && c.memory.ac == AcMode::full &&
        c.memory.scope == AcScope::block)
      CHECK(advise::unavailable(model, c).empty());
  }
  CHECK((shared == std::set<std::int64_t>{1, 2, 4, 8}));  // 8 experts
  OptionList given = hand;
  given.emplace_back("--ep", "4");
  given.emplace_back("--shard", "fsdp2");
  const StepConfig fixed = resolve_options(given);
  for (const StepConfig& c :
       advise::combinations(model, fixed, advise::space_around(model, fixed, given)))
    CHECK(c.layout.ep == 4);
  // Of one that has no experts nothing is shared.
  const model::ModelSpec dense = model::load_model("llama-3.1-8b");
  for (const StepConfig& c :
       advise::combinations(dense, base, advise::space_around(dense, base, hand)))
    CHECK(c.layout.ep == 1);
}

TEST_CASE("405B on 256 ranks has more than 20,000 layouts") {
  if (sanitized) {
    MESSAGE("left out under sanitizers: it counts what other tests list");
    return;
  }
  const model::ModelSpec model = model::load_model("llama-3.1-405b");
  const OptionList hand{{"--framework", "torchtitan"},
                        {"--world", "256"},
                        {"--batch", "1"},
                        {"--grad-accum", "16"},
                        {"--seq", "8192"}};
  const StepConfig base = resolve_options(hand);
  CHECK(advise::combinations(model, base, advise::space_around(model, base, hand)).size() > 20000);
}

}  // namespace ac_advisor::test
