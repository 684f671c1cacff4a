// Configurations that differ by what a rank has nothing of share its simulation.
#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/pipeline.hpp"
#include "ac_advisor/passes/program_text.hpp"
#include "advise/plan_rank.hpp"

namespace ac_advisor::test {
namespace {

/// Options of a small pipeline, drawn; none where they are refused.
std::optional<StepConfig> drawn(const model::ModelSpec& model, std::mt19937& random) {
  const auto one_of = [&](const std::vector<std::string>& words) {
    return words[random() % words.size()];
  };
  const OptionList options{{"--framework", one_of({"torchtitan", "hf"})},
                           {"--world", "16"},
                           {"--batch", "1"},
                           {"--seq", "128"},
                           {"--loss", "ce"},
                           {"--grad-accum", one_of({"4", "8"})},
                           {"--pp", one_of({"2", "4"})},
                           {"--pp-schedule", one_of({"1f1b", "gpipe", "interleaved:2", "zb1"})},
                           {"--tp", one_of({"1", "2"})},
                           {"--shard", one_of({"none", "fsdp2"})},
                           {"--kernels", one_of({"eager", "compiled", "fused"})},
                           {"--ac", one_of({"none", "full", "selective", "every:2"})}};
  try {
    StepConfig config = resolve_options(options);
    if (passes::find_exclusion(model, config) == nullptr) return config;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a rank without the head has the same step under a loss that is compiled") {
  std::mt19937 random(43);
  int compared = 0;
  for (const char* name : {"llama-3.1-8b", "tiny-llama"}) {
    const model::ModelSpec model = model::load_model(name);
    for (int draw = 0; draw < 60; ++draw) {
      std::optional<StepConfig> config = drawn(model, random);
      if (!config) continue;
      StepConfig compiled = *config;
      compiled.memory.loss = LossKind::ce_compiled;
      if (passes::find_exclusion(model, compiled) != nullptr) continue;
      for (std::int64_t rank = 0; rank < config->layout.pp; ++rank) {
        config->layout.pp_rank = compiled.layout.pp_rank = rank;
        const std::optional<StepConfig> shared = advise::shared_by(model, *config);
        CHECK((shared == advise::shared_by(model, compiled)));
        if (!shared) continue;
        ++compared;
        CHECK(passes::program_text(passes::build_step(model, *config)) ==
              passes::program_text(passes::build_step(model, compiled)));
      }
    }
  }
  CHECK(compared > 40);
}

TEST_CASE("a rank with the head, or of a loss that is not whole logits, is its own") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  StepConfig config = resolve_options(
      {{"--framework", "torchtitan"}, {"--world", "8"}, {"--pp", "4"}, {"--grad-accum", "4"}});
  const auto is_shared = [&](std::int64_t rank, LossKind loss) {
    StepConfig c = config;
    c.layout.pp_rank = rank;
    c.memory.loss = loss;
    return advise::shared_by(model, c).has_value();
  };
  CHECK(is_shared(0, LossKind::ce));
  CHECK(is_shared(2, LossKind::ce_compiled));
  CHECK_FALSE(is_shared(3, LossKind::ce));
  CHECK_FALSE(is_shared(0, LossKind::lc_ce));
  CHECK_FALSE(is_shared(Layout::highest_rank, LossKind::ce));
  config.layout.pp = 1;
  CHECK_FALSE(is_shared(0, LossKind::ce));
}

TEST_CASE("of a second loss only the rank with the head is simulated, and the plan is its own") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  for (const char* kernels : {"eager", "compiled"}) {
    StepConfig config = resolve_options({{"--framework", "torchtitan"},
                                         {"--world", "8"},
                                         {"--grad-accum", "8"},
                                         {"--seq", "512"},
                                         {"--pp", "4"},
                                         {"--kernels", kernels}});
    advise::SharedRanks ranks;
    const auto simulated = [&] {
      const auto plans = static_cast<std::size_t>(ir::Work::plans);
      const std::int64_t before = ir::work_done()[plans];
      const profile::Profile shared = advise::plan_of_many(model, config, ranks);
      const std::int64_t of_many = ir::work_done()[plans] - before;
      CHECK(profile::to_json(shared) == profile::to_json(advise::plan(model, config, false)));
      return of_many;
    };
    const std::int64_t first = simulated();
    CHECK(first > 2);
    config.memory.loss = LossKind::ce_compiled;
    CHECK(simulated() == 1);
    CHECK(simulated() == 1);  // the head's is kept for nobody
  }
}

TEST_CASE("rows of a sweep on several threads are plans") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand{{"--framework", "torchtitan"},
                        {"--world", "16"},
                        {"--batch", "1"},
                        {"--grad-accum", "4"},
                        {"--seq", "512"},
                        {"--pp", "4"},
                        {"--tp", "1"},
                        {"--ac", "none"},
                        {"--kernels", "compiled"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.set("--loss", {"ce", "ce-compiled"});
  space.largest_batches = 0;
  space.threads = 3;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  bool compiles_loss = false;
  for (const advise::Row& row : sweep.rows) {
    CHECK(profile::to_json(row.profile) ==
          profile::to_json(advise::plan(model, row.profile.config, false)));
    compiles_loss |= row.profile.config.memory.loss == LossKind::ce_compiled;
  }
  CHECK(compiles_loss);
}

}  // namespace ac_advisor::test
