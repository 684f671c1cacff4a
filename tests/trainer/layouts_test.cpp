// Ranks that share layers, ranks that have stages and ranks that share sequences: the peak of each
// is the planned one to the byte, and the gradients together are those of one rank.
#include <fmt/format.h>

#include <cmath>

#include "ac_advisor/advise/advise.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

OptionList short_sequences(const OptionList& options) {
  return test::with({{"--seq", "24"}}, options);
}

profile::Profile measured(const std::string& model, const OptionList& options,
                          const char* collectives, double learning_rate = 1e-3) {
  profile::RunSpec spec;
  spec.learning_rate = learning_rate;
  spec.model = test::oracle_model_name(model);
  spec.configs = {test::trainer_options(short_sequences(options))};
  spec.collectives = collectives;
  spec.steps = 2;
  return trainer::run(spec, {}).front();
}

StepConfig planned_config(const OptionList& options) {
  return test::trainer_config(short_sequences(options));
}

struct Case {
  const char* model;
  OptionList options;
};

std::string label(const Case& one) {
  std::string text = one.model;
  for (const auto& [name, value] : one.options) text += " " + name + " " + value;
  return text;
}

const std::pair<std::string, std::string> ulysses{"--cp-method", "ulysses"};

/// FSDP2 over `world` ranks, of which `ep` share experts that are chosen in turn.
OptionList sharing(const char* ep, const char* world, const OptionList& more = {}) {
  return test::with(
      {{"--ep", ep}, {"--world", world}, {"--shard", "fsdp2"}, {"--balanced-routing", ""}}, more);
}

/// Each value of tp, pp, cp, schedule, sharding and --ac beside each other one at least once, where
/// they go together; families that differ in norms, biases, windows and tied embeddings.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"tiny-llama", {{"--tp", "2"}, {"--world", "2"}}},
      {"tiny-llama", {{"--tp", "2"}, {"--world", "2"}, {"--ac", "full"}, {"--grad-accum", "3"}}},
      {"tiny-llama",
       {{"--tp", "2"}, {"--world", "4"}, {"--shard", "fsdp2"}, {"--ac", "selective"}}},
      {"tiny-llama", {{"--tp", "2"}, {"--world", "8"}, {"--shard", "fsdp2"}, {"--ac", "every:2"}}},
      {"qwen3", {{"--tp", "2"}, {"--world", "2"}, {"--grad-accum", "2"}}},
      {"qwen2", {{"--tp", "2"}, {"--world", "4"}, {"--shard", "fsdp2"}, {"--ac", "grouped:2"}}},
      {"qwen2", {{"--tp", "2"}, {"--world", "2"}, {"--ac", "selective"}}},
      {"qwen3", {{"--tp", "2"}, {"--world", "4"}, {"--shard", "fsdp2"}, {"--ac", "full"}}},
      {"tiny-llama", {{"--pp", "2"}, {"--world", "2"}, {"--grad-accum", "4"}}},
      {"tiny-llama",
       {{"--pp", "4"}, {"--world", "4"}, {"--grad-accum", "6"}, {"--ac", "selective"}}},
      {"llama_untied",
       {{"--pp", "2"}, {"--world", "4"}, {"--grad-accum", "4"}, {"--shard", "fsdp2"}}},
      {"mistral",
       {{"--pp", "2"},
        {"--world", "2"},
        {"--grad-accum", "2"},
        {"--ac", "full"},
        {"--attn", "eager"}}},
      {"qwen3", {{"--pp", "2"}, {"--world", "8"}, {"--grad-accum", "3"}, {"--shard", "hsdp:2"}}},
      {"tiny-llama",
       {{"--pp", "2"},
        {"--pp-schedule", "gpipe"},
        {"--world", "2"},
        {"--grad-accum", "3"},
        {"--ac", "every:2"}}},
      {"tiny-llama",
       {{"--pp", "4"},
        {"--pp-schedule", "gpipe"},
        {"--world", "8"},
        {"--grad-accum", "4"},
        {"--shard", "fsdp2"},
        {"--ac", "full"}}},
      {"tiny-llama",
       {{"--pp", "2"},
        {"--pp-schedule", "interleaved:2"},
        {"--world", "2"},
        {"--grad-accum", "4"}}},
      {"tiny-llama",
       {{"--pp", "2"},
        {"--pp-schedule", "interleaved:2"},
        {"--world", "4"},
        {"--grad-accum", "8"},
        {"--shard", "fsdp2"},
        {"--ac", "selective"}}},
      {"tiny-llama",
       {{"--pp", "2"}, {"--tp", "2"}, {"--world", "4"}, {"--grad-accum", "4"}, {"--ac", "full"}}},
      {"qwen2",
       {{"--pp", "2"},
        {"--tp", "2"},
        {"--world", "8"},
        {"--grad-accum", "2"},
        {"--shard", "fsdp2"}}},
      {"tiny-llama",
       {{"--pp", "2"},
        {"--pp-schedule", "interleaved:2"},
        {"--tp", "2"},
        {"--world", "8"},
        {"--grad-accum", "4"},
        {"--shard", "fsdp2"},
        {"--ac", "every:2"}}},
      {"tiny-llama",
       {{"--pp", "2"}, {"--world", "2"}, {"--grad-accum", "4"}, {"--clip-grad", "0.1"}}},
      {"llama_untied",
       {{"--pp", "2"},
        {"--pp-schedule", "interleaved:2"},
        {"--world", "4"},
        {"--grad-accum", "4"},
        {"--shard", "fsdp2"},
        {"--clip-grad", "0.1"}}},
      {"qwen3",
       {{"--pp", "2"},
        {"--world", "8"},
        {"--grad-accum", "3"},
        {"--shard", "hsdp:2"},
        {"--optimizer", "sgd"},
        {"--clip-grad", "0.1"}}},
      {"qwen3", {{"--tp", "2"}, {"--world", "2"}, {"--clip-grad", "0.1"}}},
      {"qwen2",
       {{"--tp", "2"},
        {"--world", "4"},
        {"--shard", "fsdp2"},
        {"--optimizer", "sgd"},
        {"--clip-grad", "0.1"}}},
      {"tiny-llama",
       {{"--pp", "2"},
        {"--tp", "2"},
        {"--world", "8"},
        {"--grad-accum", "2"},
        {"--shard", "fsdp2"},
        {"--clip-grad", "0.1"}}},
      {"tiny-llama", {{"--cp", "2"}, {"--world", "2"}}},
      {"tiny-llama", {{"--cp", "2"}, {"--world", "2"}, {"--ac", "full"}, {"--batch", "3"}}},
      {"tiny-llama", {{"--cp", "4"}, {"--world", "4"}, {"--ac", "selective"}}},
      {"tiny-llama", {{"--cp", "4"}, {"--world", "4"}, {"--cp-method", "alltoall"}}},
      {"qwen3", {{"--cp", "2"}, {"--world", "4"}, {"--ac", "every:2"}, {"--grad-accum", "2"}}},
      {"qwen2", {{"--cp", "2"}, {"--world", "8"}, {"--ac", "grouped:2"}}},
      {"tiny-llama",
       {{"--cp", "3"}, {"--world", "6"}, {"--cp-method", "alltoall"}, {"--ac", "selective"}}},
      {"tiny-llama", {{"--cp", "2"}, {"--world", "2"}, ulysses}},
      {"tiny-llama",
       {{"--cp", "2"}, {"--world", "2"}, ulysses, {"--ac", "full"}, {"--batch", "3"}}},
      {"tiny-llama", {{"--cp", "4"}, {"--world", "4"}, ulysses, {"--ac", "selective"}}},
      {"tiny-llama", {{"--cp", "4"}, {"--world", "4"}, ulysses, {"--batch", "1"}}},
      {"tiny-llama", {{"--cp", "2"}, {"--world", "4"}, ulysses, {"--batch", "1"}}},
      {"qwen3",
       {{"--cp", "2"}, {"--world", "4"}, ulysses, {"--ac", "every:2"}, {"--grad-accum", "2"}}},
      {"qwen2", {{"--cp", "4"}, {"--world", "8"}, ulysses, {"--ac", "grouped:2"}}},
      {"mixtral", sharing("2", "2")},
      {"mixtral", sharing("2", "4", {{"--ac", "full"}})},
      {"mixtral", sharing("4", "4", {{"--ac", "selective"}, {"--grad-accum", "2"}})},
      {"qwen3_moe", sharing("4", "8", {{"--ac", "every:2"}})},
      {"qwen3_moe", sharing("2", "8", {{"--ac", "grouped:2"}, {"--fsdp-unit", "torchtitan"}})},
      {"qwen3_moe", sharing("2", "4", {{"--grad-accum", "3"}, {"--no-sync", ""}})},
      {"qwen3_moe", sharing("2", "8", {{"--shard", "hsdp:4"}, {"--ac", "full"}})},
  };
  return all;
}

}  // namespace

TEST_CASE("every rank of a layout has the planned peak to the byte, and one rank's gradients") {
  for (const Case& one : cases()) {
    INFO(label(one));
    const model::ModelSpec model = test::oracle_model(one.model);
    const StepConfig config = planned_config(one.options);
    const profile::Profile run = measured(one.model, one.options, "local");
    CHECK(run.memory.peak_allocated == advise::plan(model, config).memory.peak_allocated);
    std::int64_t ranks = 0;
    for (const profile::RankMemory& rank : run.memory.ranks) {
      ranks += rank.count;
      StepConfig own = config;
      if (own.layout.pp > 1) own.layout.pp_rank = rank.pp_rank;
      if (own.layout.cp > 1) own.layout.cp_rank = rank.cp_rank;
      CAPTURE(rank.pp_rank);
      CAPTURE(rank.cp_rank);
      CHECK(rank.peak_allocated == advise::plan(model, own).memory.peak_allocated);
    }
    CHECK(ranks == config.layout.world);
    REQUIRE(run.numerics);
    CHECK_MESSAGE(run.numerics->parity_error < 1e-6, run.numerics->parity);
    CHECK(run.numerics->losses.size() == 2);
  }
}

TEST_CASE("a layout trains: losses are those of one rank with the whole batch") {
  const auto losses = [](const OptionList& options) {
    return measured("tiny-llama", options, "local").numerics->losses;
  };
  const std::vector<double> alone = losses({{"--grad-accum", "8"}});
  const std::vector<double> shared = losses({{"--pp", "2"},
                                             {"--tp", "2"},
                                             {"--world", "8"},
                                             {"--shard", "fsdp2"},
                                             {"--grad-accum", "4"}});
  REQUIRE(alone.size() == 2);
  REQUIRE(shared.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(shared[i] == doctest::Approx(alone[i]).epsilon(1e-6));
  CHECK(alone[1] < alone[0]);
}

TEST_CASE("clipping: the norm of stages and of split layers is that of whole models") {
  const auto losses = [](const OptionList& options) {
    // 8 tokens: fewer than its window
    const OptionList one{{"--batch", "1"}, {"--seq", "8"}, {"--optimizer", "sgd"}};
    return measured("mistral", test::with(one, options), "local", /*learning_rate=*/0.1)
        .numerics->losses;
  };
  const OptionList clipped{{"--clip-grad", "0.1"}};
  const std::vector<double> free = losses({{"--grad-accum", "8"}}),
                            alone = losses(test::with(clipped, {{"--grad-accum", "8"}}));
  CHECK(std::abs(alone[1] - free[1]) > 1e-4 * free[1]);
  const OptionList sharded{{"--shard", "fsdp2"}};
  const OptionList layouts[] = {
      {{"--pp", "2"}, {"--world", "2"}, {"--grad-accum", "8"}},
      test::with(sharded, {{"--pp", "2"}, {"--world", "4"}, {"--grad-accum", "4"}}),
      {{"--pp", "2"}, {"--world", "8"}, {"--shard", "hsdp:2"}, {"--grad-accum", "2"}},
      {{"--tp", "2"}, {"--world", "2"}, {"--grad-accum", "8"}},
      test::with(sharded, {{"--tp", "2"}, {"--world", "4"}, {"--grad-accum", "4"}}),
      test::with(sharded, {{"--pp", "2"}, {"--tp", "2"}, {"--world", "8"}, {"--grad-accum", "4"}})};
  for (const OptionList& layout : layouts)
    CHECK(losses(test::with(clipped, layout))[1] == doctest::Approx(alone[1]).epsilon(1e-6));
}

TEST_CASE("one process stands for any stage's rank, and has its bytes") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* rank : {"0", "1"}) {
    const OptionList options{{"--pp", "2"},        {"--tp", "2"},    {"--world", "8"},
                             {"--shard", "fsdp2"}, {"--ac", "full"}, {"--grad-accum", "4"},
                             {"--pp-rank", rank}};
    const profile::Profile run = measured("tiny-llama", options, "emulate");
    CHECK(run.memory.peak_allocated ==
          advise::plan(model, planned_config(options)).memory.peak_allocated);
    CHECK(run.absent.contains("numerics"));
  }
}

}  // namespace ac_advisor
