// Compressed gradients on two ranks: against PyTorch's PowerSGD hook and
// examples/grad_compression/topk_hook.py over Gloo (tests/oracle/compression, written by
// tests/oracle/compression_reference.py), the plan's bytes, and what training comes to.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <thread>

#include "ac_advisor/advise/advise.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"
#include "trainer/weights/safetensors.hpp"

namespace ac_advisor {
namespace {

OptionList two_ranks(const char* how) {
  return {{"--world", "2"}, {"--shard", "ddp"}, {"--grad-compression", how}};
}

/// Each right factor as the reference's began.
void set_factors(trainer::Rank& rank, const trainer::Built& built,
                 const trainer::SafetensorsFile& expected) {
  int set = 0;
  for (const passes::CompressedBucket& kept : built.step.compressed) {
    if (kept.q == ir::no_id) continue;
    const at::Tensor q = rank.executor().tensor(kept.q);
    for (const passes::FactoredGradient& f : kept.factored)
      for (std::size_t i = 0; i < built.trained.size(); ++i) {
        const ir::ValueId gradient = built.step.optimized[i].gradient;
        const ir::Program& p = built.step.program;
        const ir::ValueId part = p.value(gradient).base;  // of the reshape: the narrowed bucket
        if (p.root(gradient) != kept.bucket || p.value(part).narrow_start != f.in_bucket) continue;
        q.narrow(0, f.in_q, f.columns * f.rank)
            .copy_(test::read_all(expected, "q." + built.parameters[built.trained[i]].name)
                       .view({-1}));
        ++set;
      }
  }
  int wanted = 0;
  for (const auto& [name, entry] : expected.entries()) wanted += name.starts_with("q.") ? 1 : 0;
  CHECK(set == wanted);
}

void compare(const char* name, const char* how) {
  const std::string oracle = test::source_folder() + "/tests/oracle/";
  const trainer::SafetensorsFile expected(oracle + "compression/" + name + ".safetensors");
  const trainer::Weights weights(oracle + "models/llama");
  const at::Tensor ids[] = {test::read_all(expected, "ids.0"), test::read_all(expected, "ids.1")};
  const StepConfig config = test::trainer_config(
      test::with(two_ranks(how),
                 {{"--batch", "1"}, {"--seq", "24"}, {"--attn", "eager"}, {"--optimizer", "sgd"}}));
  const auto built = trainer::build(test::oracle_model("llama"), config);
  const trainer::Data data = [&](std::int64_t sequence, at::Tensor to) {
    to.copy_(ids[sequence / 2].narrow(0, sequence % 2, 1));
  };
  trainer::MemoryTracker::install();
  auto ranks = trainer::make_local(2, /*timeout_seconds=*/60);
  std::vector<at::Tensor> gradients[2];
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      at::set_num_threads(1);
      trainer::Rank rank(*built, *ranks[r], data, 1);
      rank.load_weights(&weights);
      rank.executor().optimizer().learning_rate = 0;
      set_factors(rank, *built, expected);
      static_cast<void>(rank.step());
      rank.capture_gradients(&gradients[r]);
      static_cast<void>(rank.step());
    });
  for (std::thread& thread : threads) thread.join();
  CAPTURE(name);
  CHECK(test::bit_identical(gradients[0], gradients[1]));
  for (std::size_t i = 0; i < built->trained.size(); ++i) {
    const std::string& parameter = built->parameters[built->trained[i]].name;
    CAPTURE(parameter);
    const at::Tensor wanted = test::read_all(expected, "grad." + parameter);
    CHECK(test::largest_difference({gradients[0][i]}, {wanted}) < 1e-4);
  }
}

}  // namespace

TEST_CASE("PowerSGD's gradients are those of PyTorch's hook, its error and factors kept") {
  compare("powersgd_1", "powersgd:1");
  compare("powersgd_4", "powersgd:4");
}

TEST_CASE("the largest elements are those of the example's hook, the rest is kept") {
  compare("topk", "topk:0.05");
}

TEST_CASE("compressed gradients: predicted is measured to the byte") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* how : {"bf16", "fp16", "topk:0.01", "topk:1", "powersgd:1", "powersgd:4"})
    for (const char* ac : {"none", "full"})
      for (const char* accum : {"1", "3"}) {
        OptionList options =
            test::with(two_ranks(how), {{"--seq", "24"}, {"--ac", ac}, {"--grad-accum", accum}});
        if (accum[0] == '3') options.emplace_back("--no-sync", "");
        const StepConfig config = test::trainer_config(options);
        const std::string label = fmt::format("{} {} accum {}", how, ac, accum);
        CAPTURE(label);
        const profile::Memory predicted = advise::plan(model, config).memory;
        const test::Outcome run =
            test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
        CHECK(run.peak == predicted.peak_allocated);
        CHECK(run.declared_peak == predicted.peak_excluding_workspace);
      }
}

TEST_CASE("what is sent whole is averaged as without compression") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList sizes{{"--seq", "24"}};
  const auto gradients = [&](const char* how) {
    return test::run_steps(model, test::trainer_config(test::with(two_ranks(how), sizes)), 1,
                           test::random_tokens(model.vocab))
        .gradients;
  };
  const auto plain = gradients("none");
  CHECK(test::largest_difference(gradients("topk:1"), plain) < 1e-6);
  CHECK(test::largest_difference(gradients("bf16"), plain) < 1.0 / 128);  // 8 bits of a mantissa
  CHECK(test::largest_difference(gradients("fp16"), plain) < 1.0 / 512);  // 11, and subnormals
  CHECK(test::largest_difference(gradients("topk:0.01"), plain) > 0.1);
  CHECK(test::largest_difference(gradients("powersgd:1"), plain) > 0.1);
}

TEST_CASE("error feedback: compressed training ends near where it ends without") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const trainer::Data data = trainer::TextData("", 32, model.vocab, 1);
  const auto last = [&](const char* how) {
    const auto losses =
        test::run_steps(model, test::trainer_config(two_ranks(how)), 60, data).losses;
    double sum = 0;
    for (std::size_t i = losses.size() - 10; i < losses.size(); ++i) sum += losses[i];
    return std::pair(losses.front(), sum / 10);
  };
  const auto [first, plain] = last("none");
  for (const char* how : {"bf16", "topk:0.05", "powersgd:4"}) {
    CAPTURE(how);
    const auto [same, compressed] = last(how);
    CHECK(same == doctest::Approx(first));
    CHECK(first - compressed > 0.7 * (first - plain));
  }
}

}  // namespace ac_advisor
