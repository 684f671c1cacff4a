// Predicted peak = measured peak, to the byte, in fp32, in every phase, workspaces included.
#include <fmt/format.h>

#include <set>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

struct Factor {
  const char* option;
  std::vector<const char*> values;  ///< "" leaves the option out
};

const std::vector<Factor>& factors() {
  static const std::vector<Factor> all{
      {"--ac", {"none", "full", "selective", "attention", "grouped:2", "every:2", "sqrt"}},
      {"--ac-scope", {"block", "submodule"}},
      {"--loss", {"ce", "lc-ce", "chunked:24"}},
      {"--kernels", {"eager", "fused", "compiled"}},
      {"--shard", {"none", "ddp", "zero1", "zero2", "fsdp2", "hsdp:2"}},
      {"--grad-accum", {"1", "2", "3"}},
      {"--no-sync", {"", "on"}},
      {"--keep-last-block", {"", "on"}},
      {"--attn", {"flash", "eager"}},
      {"--dropout", {"0", "0.1"}},
      {"--optimizer", {"adamw", "adamw-foreach", "sgd"}},
      {"--no-hold-output", {"", "on"}}};
  return all;
}

/// The configuration, or nothing where planner and trainer refuse it.
std::optional<StepConfig> config_of(const model::ModelSpec& model,
                                    const std::vector<std::size_t>& levels) {
  OptionList options{{"--seq", "24"}, {"--force", ""}};
  for (std::size_t f = 0; f < levels.size(); ++f) {
    const std::string value = factors()[f].values[levels[f]];
    if (value.empty()) continue;
    options.emplace_back(factors()[f].option, value == "on" ? "" : value);
    if (std::string_view(factors()[f].option) != "--shard" || value == "none") continue;
    options.emplace_back("--world", value == "hsdp:2" ? "4" : "3");
  }
  try {
    const StepConfig config = test::trainer_config(options);
    static_cast<void>(trainer::build(model, config));
    return config;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

using Pair = std::array<std::size_t, 4>;  // factor, level, factor, level

std::set<Pair> pairs_of(const std::vector<std::size_t>& levels) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < levels.size(); ++a)
    for (std::size_t b = a + 1; b < levels.size(); ++b) pairs.insert({a, levels[a], b, levels[b]});
  return pairs;
}

/// A set of valid configurations that has every pair of levels that any valid one has: drawn at
/// random, and kept where a new pair comes with it.
std::vector<StepConfig> pairwise(const model::ModelSpec& model) {
  std::vector<StepConfig> kept;
  std::set<Pair> covered;
  std::uint64_t draw = 0;
  for (int idle = 0; idle < 400; ++idle) {
    std::vector<std::size_t> levels;
    for (std::size_t f = 0; f < factors().size(); ++f)
      levels.push_back(trainer::mix(++draw) % factors()[f].values.size());
    const std::set<Pair> pairs = pairs_of(levels);
    if (std::includes(covered.begin(), covered.end(), pairs.begin(), pairs.end())) continue;
    const auto config = config_of(model, levels);
    if (!config) continue;
    covered.insert(pairs.begin(), pairs.end());
    kept.push_back(*config);
    idle = 0;
  }
  return kept;
}

void check_exact(const model::ModelSpec& model, const StepConfig& config) {
  const profile::Memory predicted = advise::plan(model, config).memory;
  const test::Outcome run =
      test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
  const std::string label = fmt::format(
      "{} {} {} {} accum {} {} {} dropout {}", ac_option(config), loss_option(config),
      to_option(config.memory.kernels), shard_option(config), config.run.grad_accum,
      to_option(config.optimizer.kind), to_option(config.run.attention), config.run.dropout);
  CAPTURE(label);
  test::check_planned(run, predicted, /*workspaces=*/true);
}

}  // namespace

TEST_CASE("predicted is measured to the byte: tiny-llama, every pair of options") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const std::vector<StepConfig> set = pairwise(model);
  CHECK(set.size() > 40);
  for (const StepConfig& config : set) check_exact(model, config);
  MESSAGE(set.size() << " configurations cover every pair that is valid");
}

TEST_CASE("predicted is measured to the byte: 58 million parameters, every mode and sharding") {
  const model::ModelSpec model = model::load_model("llama-60m");
  const char* shards[] = {"none", "ddp", "fsdp2", "hsdp:2", "zero2", "zero1", "fsdp2"};
  const char* modes[] = {"none", "full", "selective", "attention", "grouped:2", "every:2", "sqrt"};
  for (std::size_t i = 0; i < 7; ++i) {
    OptionList options{{"--batch", "1"},
                       {"--seq", "32"},
                       {"--ac", modes[i]},
                       {"--shard", shards[i]},
                       {"--kernels", i % 2 == 0 ? "fused" : "eager"},
                       {"--loss", i % 3 == 0   ? "ce"
                                  : i % 3 == 1 ? "lc-ce"
                                               : "chunked:20"}};
    if (i > 0) options.emplace_back("--world", "4");
    check_exact(model, test::trainer_config(options));
  }
}

TEST_CASE("predicted is measured to the byte: one sequence, by every loss and attention") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* loss : {"ce", "lc-ce", "chunked:64", "chunked:127"})
    for (const char* dropout : {"0", "0.1"})
      check_exact(model, test::trainer_config({{"--batch", "1"},
                                               {"--seq", "128"},
                                               {"--loss", loss},
                                               {"--attn", "eager"},
                                               {"--dropout", dropout}}));
}

TEST_CASE("predicted is measured to the byte: every family") {
  for (const char* family : {"gemma2", "gemma3_text", "llama", "llama_untied", "mistral", "mixtral",
                             "phi3", "qwen2", "qwen3", "qwen3_moe"})
    for (const char* kernels : {"eager", "fused"})
      for (const char* ac : {"none", "full", "selective"}) {
        const model::ModelSpec model = test::oracle_model(family);
        CAPTURE(std::string(family));
        check_exact(
            model,
            test::trainer_config(
                {{"--attn", "eager"}, {"--kernels", kernels}, {"--ac", ac}, {"--seq", "24"}}));
      }
}

TEST_CASE("in bf16 all but the workspaces is predicted to the byte") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* ac : {"none", "full", "selective", "grouped:2"})
    for (const char* shard : {"none", "fsdp2"})
      for (const char* loss : {"ce", "lc-ce"}) {
        OptionList options{{"--param-dtype", "bf16"},  {"--compute-dtype", "bf16"},
                           {"--reduce-dtype", "bf16"}, {"--ac", ac},
                           {"--loss", loss},           {"--kernels", "fused"},
                           {"--shard", shard}};
        if (std::string_view(shard) != "none") options.emplace_back("--world", "2");
        const StepConfig config = test::trainer_config(options);
        const profile::Memory predicted = advise::plan(model, config).memory;
        const test::Outcome run =
            test::run_steps(model, config, 2, test::random_tokens(model.vocab), true);
        CAPTURE(ac);
        CHECK(run.declared_peak == predicted.peak_excluding_workspace);
      }
}

// Every valid combination of mode, scope, loss, kernels, sharding, accumulation, attention and
// dropout, a few minutes: trainer_tests --no-skip -tc="*full factorial*"
TEST_CASE("predicted is measured to the byte: full factorial" * doctest::skip()) {
  const model::ModelSpec model = model::load_model("tiny-llama");
  std::vector<std::size_t> levels(factors().size(), 0);
  std::size_t valid = 0;
  for (bool more = true; more;) {
    if (const auto config = config_of(model, levels)) {
      ++valid;
      check_exact(model, *config);
    }
    more = false;
    for (std::size_t f = 0; f < levels.size() && !more; ++f) {
      const std::string_view option = factors()[f].option;
      if (option == "--no-sync" || option == "--keep-last-block" || option == "--optimizer" ||
          option == "--no-hold-output")
        continue;  // their pairs with all others are in the pairwise set
      levels[f] = (levels[f] + 1) % factors()[f].values.size();
      more = levels[f] != 0;
    }
  }
  MESSAGE(valid << " configurations");
}

}  // namespace ac_advisor
