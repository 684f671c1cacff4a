// The same gradients in every mode: bit for bit where the sums are the same, to rounding where
// ranks add in another order.
#include <c10/util/Exception.h>

#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

using test::oracle_model;
using test::with;

const char* const modes[] = {"full", "selective", "attention", "grouped:2", "every:2", "sqrt"};

test::Outcome run(const model::ModelSpec& model, const OptionList& options, int steps = 1) {
  return test::run_steps(model, test::trainer_config(options), steps,
                         test::random_tokens(model.vocab));
}

}  // namespace

TEST_CASE("gradients are bit-identical in all checkpointing modes and scopes") {
  for (const char* name : {"tiny-llama", "gemma2", "phi3", "qwen3_moe"}) {
    const model::ModelSpec model = oracle_model(name);
    for (const char* kernels : {"eager", "fused"})
      for (const char* loss : {"ce", "lc-ce"}) {
        const OptionList base{
            {"--kernels", kernels}, {"--loss", loss}, {"--attn", "eager"}, {"--seq", "24"}};
        const test::Outcome plain = run(model, base);
        CAPTURE(name);
        CAPTURE(kernels);
        for (const char* ac : modes) {
          if (std::string_view(ac) == "grouped:2" && model.layers < 2) continue;
          CAPTURE(ac);
          const test::Outcome other = run(model, with(base, {{"--ac", ac}}));
          CHECK(other.loss == plain.loss);
          CHECK(test::bit_identical(other.gradients, plain.gradients));
        }
        for (const char* ac : {"full", "every:2"})
          CHECK(test::bit_identical(
              run(model, with(base, {{"--ac", ac}, {"--ac-scope", "submodule"}})).gradients,
              plain.gradients));
      }
  }
}

TEST_CASE("budget: chooses modes a block, and the gradients stay the same bits") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const test::Outcome plain = run(model, {});
  const test::Outcome planned = run(model, {{"--ac", "budget:3300000"}});
  CHECK(test::bit_identical(planned.gradients, plain.gradients));
  CHECK(planned.peak <= 3300000);
}

TEST_CASE("a batch of one sequence has the same gradients by every attention, loss and chunk") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList one{{"--batch", "1"}, {"--seq", "33"}};
  const test::Outcome plain = run(model, one);
  // chunks: all tokens, the last of one token, every one of one token
  for (const char* loss : {"ce", "lc-ce", "chunked:33", "chunked:32", "chunked:1"})
    for (const char* attention : {"flash", "eager"}) {
      const test::Outcome other = run(model, with(one, {{"--loss", loss}, {"--attn", attention}}));
      CAPTURE(loss);
      CAPTURE(attention);
      CHECK(other.loss == doctest::Approx(plain.loss).epsilon(1e-6));
      CHECK(test::largest_difference(other.gradients, plain.gradients) < 1e-6);
    }
}

TEST_CASE("the smallest steps are run without a warning of LibTorch") {
  struct Count final : c10::WarningHandler {
    void process(const c10::Warning& warning) override { said += warning.msg() + "\n"; }
    std::string said;
  } count;
  const model::ModelSpec model = model::load_model("tiny-llama");
  {
    const c10::WarningUtils::WarningHandlerGuard guard(&count);
    for (const char* attention : {"flash", "eager"})
      for (const char* seq : {"2", "3"})
        static_cast<void>(run(model, {{"--batch", "1"}, {"--seq", seq}, {"--attn", attention}}));
  }
  CHECK(count.said.empty());
}

TEST_CASE("sharded gradients are those of one rank with the whole batch") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  struct Sharded {
    const char* shard;
    const char* world;
  };
  for (const char* loss : {"ce", "lc-ce", "chunked:24"})
    for (const char* accum : {"1", "3"}) {
      for (const Sharded& s : {Sharded{"ddp", "2"},
                               {"zero1", "2"},
                               {"zero2", "3"},
                               {"fsdp2", "2"},
                               {"fsdp2", "3"},
                               {"hsdp:2", "4"}}) {
        const OptionList base{{"--loss", loss}, {"--grad-accum", accum}, {"--ac", "full"}};
        const std::int64_t world = std::stoll(s.world);
        const test::Outcome alone =
            run(model, with(base, {{"--batch", std::to_string(2 * world)}}));
        const test::Outcome shared =
            run(model, with(base, {{"--shard", s.shard}, {"--world", s.world}}));
        CAPTURE(s.shard);
        CAPTURE(loss);
        CHECK(shared.loss == doctest::Approx(alone.loss).epsilon(1e-6));
        CHECK(test::largest_difference(shared.gradients, alone.gradients) < 1e-6);
      }
    }
}

TEST_CASE("--no-sync changes when gradients are reduced, not what they are") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* shard : {"ddp", "fsdp2"})
    for (const char* accum : {"2", "4"}) {
      const OptionList base{{"--grad-accum", accum}, {"--shard", shard}, {"--world", "2"}};
      const test::Outcome each = run(model, base);
      const test::Outcome once = run(model, with(base, {{"--no-sync", ""}}));
      CAPTURE(shard);
      CHECK(test::largest_difference(once.gradients, each.gradients) < 1e-6);
    }
}

TEST_CASE("a shard that is left out of the LM head's gradient is noticed") {
  // A peer's bug: under sharded LC-CE each rank kept its own part of the head's gradient.
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList base{{"--loss", "lc-ce"}};
  const test::Outcome alone = run(model, with(base, {{"--batch", "4"}}));
  test::Outcome shared = run(model, with(base, {{"--shard", "fsdp2"}, {"--world", "2"}}));
  REQUIRE(test::largest_difference(shared.gradients, alone.gradients) < 1e-6);
  shared.gradients[0] = run(model, base).gradients[0];  // the tied head's, of one rank's tokens
  CHECK(test::largest_difference(shared.gradients, alone.gradients) > 0.1);
}

TEST_CASE("fp32 steps of all shardings train the same model") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const test::Outcome alone = run(model, {{"--batch", "4"}}, 3);
  for (const char* shard : {"ddp", "fsdp2", "zero1", "zero2"}) {
    const test::Outcome shared = run(model, {{"--shard", shard}, {"--world", "2"}}, 3);
    CAPTURE(shard);
    // AdamW's first steps divide by |g|: rounding of tiny gradients shows in the parameters.
    CHECK(test::largest_difference(shared.parameters, alone.parameters) < 1e-3);
    CHECK(shared.losses.back() == doctest::Approx(alone.losses.back()).epsilon(1e-4));
  }
}

TEST_CASE("foreach AdamW takes fused AdamW's steps") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const test::Outcome fused = run(model, {}, 3);
  const test::Outcome foreach = run(model, {{"--optimizer", "adamw-foreach"}}, 3);
  CHECK(test::largest_difference(foreach.parameters, fused.parameters) < 1e-5);
}

TEST_CASE("recomputed dropout masks are the forward's, and another key is noticed") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList base{{"--dropout", "0.2"}, {"--attn", "eager"}};
  const test::Outcome plain = run(model, base);
  const test::Outcome without = run(model, {{"--attn", "eager"}});
  CHECK_FALSE(test::bit_identical(plain.gradients, without.gradients));
  for (const char* ac : modes) {
    CAPTURE(ac);
    CHECK(test::bit_identical(run(model, with(base, {{"--ac", ac}})).gradients, plain.gradients));
  }
  const StepConfig config = test::trainer_config(with(base, {{"--ac", "full"}}));
  const auto built = trainer::build(model, config);
  const auto alone = trainer::make_single();
  const trainer::Data data = test::random_tokens(model.vocab);
  trainer::Rank rank(*built, *alone, data, 1);
  rank.load_weights(nullptr);
  rank.executor().flip_dropout_in_recomputation();
  std::vector<at::Tensor> flipped;
  rank.capture_gradients(&flipped);
  static_cast<void>(rank.step());
  CHECK(test::largest_difference(flipped, plain.gradients) > 1e-2);
}

TEST_CASE("dropout drops p of the scores and scales the rest") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  at::Tensor x = at::ones({100000});
  trainer::apply_dropout(x, 0.3, 1.0 / 0.7, 42);
  const double kept = x.ne(0).sum().item<double>() / 100000;
  CHECK(kept == doctest::Approx(0.7).epsilon(0.01));  // 3 sigma of 1e5 draws is 0.0043
  CHECK(x.max().item<double>() == doctest::Approx(1.0 / 0.7));
  at::Tensor again = at::ones({100000});
  trainer::apply_dropout(again, 0.3, 1.0 / 0.7, 42);
  CHECK(at::equal(x, again));
}

}  // namespace ac_advisor
