// --kernels compiled in the trainer: blocks as torch.compile makes them, run on the CPU. Oracles:
// the plan's bytes, and the gradients of the same step with eager blocks.
#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

using test::with;

const OptionList compiled{{"--kernels", "compiled"}, {"--attn", "flash"}};

test::Outcome run(const model::ModelSpec& model, const OptionList& options) {
  return test::run_steps(model, test::trainer_config(options), 1, test::random_tokens(model.vocab));
}

/// Peaks of the phases to the byte, gradients as eager's of the same sharding.
void check(const model::ModelSpec& model, const OptionList& options) {
  const StepConfig config = test::trainer_config(with(compiled, options));
  const profile::Memory predicted = advise::plan(model, config).memory;
  const test::Outcome made =
      test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
  for (std::size_t i = 0; i < made.by_phase.size(); ++i) {
    CAPTURE(i);
    CHECK(made.by_phase[i] == predicted.peak_by_phase[i]);
  }
  CHECK(made.peak == predicted.peak_allocated);

  const test::Outcome ours = run(model, with(compiled, options));
  const test::Outcome eager =
      run(model, with(with(options, {{"--ac", "none"}}), {{"--attn", "flash"}}));
  CHECK(ours.loss == doctest::Approx(eager.loss).epsilon(1e-6));
  CHECK(test::largest_difference(ours.gradients, eager.gradients) < 2e-6);
}

}  // namespace

TEST_CASE("compiled blocks: every family, checkpoint and budget") {
  for (const char* family : {"llama", "llama_untied", "mistral", "qwen2", "qwen3", "gemma3_text"})
    for (const char* ac : {"none", "full", "selective", "every:2", "memory-budget:0.9",
                           "memory-budget:0.5", "memory-budget:0.3", "memory-budget:0.0"}) {
      CAPTURE(std::string(family));
      CAPTURE(ac);
      model::ModelSpec model = test::oracle_model(family);
      std::fill(model.window.begin(), model.window.end(), 0);  // refused within --seq
      check(model, {{"--ac", ac}, {"--seq", "24"}});
    }
}

TEST_CASE("compiled blocks: sharded, accumulated, with every loss and optimizer") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList lists[] = {
      {{"--shard", "fsdp2"}, {"--world", "3"}},
      {{"--shard", "fsdp2"}, {"--world", "2"}, {"--ac", "full"}, {"--grad-accum", "2"}},
      {{"--shard", "hsdp:2"}, {"--world", "4"}, {"--ac", "selective"}},
      {{"--grad-accum", "3"}, {"--optimizer", "sgd"}},
      {{"--loss", "lc-ce"}, {"--ac", "full"}},
      {{"--loss", "chunked:24"}, {"--optimizer", "adamw-foreach"}},
      {{"--batch", "3"}, {"--seq", "77"}, {"--no-hold-output", ""}},
      {{"--batch", "1"}, {"--seq", "2"}},  // as many as heads of keys
      {{"--seq", "4"}}};                   // as many as heads
  for (const OptionList& options : lists) {
    CAPTURE(options.front().first + " " + options.front().second);
    check(model, options);
  }
}

// 5120 tokens x 1280 columns: from 5 Mi elements on Inductor sums a norm's weight gradient in
// partial sums within the rows' kernel, several blocks of tokens to each.
TEST_CASE("compiled blocks: a norm's weight gradient in partial sums beside its rows") {
  model::ModelSpec model = test::oracle_model("mistral");
  model.layers = 1;
  model.window.assign(1, 0);
  model.hidden = 1280;
  check(model, {{"--batch", "5"}, {"--seq", "1024"}, {"--loss", "lc-ce"}});
}

TEST_CASE("compiled blocks with two threads: the same gradients to rounding") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList options = with(compiled, {{"--seq", "200"}});
  const test::Outcome one = run(model, options);
  const test::Outcome two = run(model, with(options, {{"--threads", "2"}}));
  CHECK(test::largest_difference(two.gradients, one.gradients) < 1e-6);
}

}  // namespace ac_advisor
