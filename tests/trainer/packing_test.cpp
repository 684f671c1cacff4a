// Documents packed into one row: each attends to itself alone, so the row's gradients are those of
// its documents by themselves; what is planned is what is held.
#include <fmt/format.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "trainer/autograd_walker.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

constexpr std::uint64_t seed = 3;

/// LibTorch's autograd over one document as the only sequence of a batch.
std::vector<at::Tensor> gradients_of_document(const model::ModelSpec& model, const char* attention,
                                              std::int64_t document, std::int64_t length) {
  const StepConfig config = test::trainer_config(
      {{"--batch", "1"}, {"--seq", std::to_string(length)}, {"--attn", attention}});
  const auto built = trainer::build(model, config);
  const auto alone = trainer::make_single();
  const trainer::Data all = test::random_tokens(model.vocab),
                      data = [&](std::int64_t, const at::Tensor&ids) { all(document, ids); };
  trainer::Rank rank(*built, *alone, data, seed);
  rank.load_weights(nullptr);
  rank.load_first_batch();
  std::set<ir::OpKind> seen;
  return test::autograd_gradients(rank, seen);
}

/// Mean over all labels: a document of n tokens has n - 1.
std::vector<at::Tensor> gradients_of_documents(const model::ModelSpec& model, const char* attention,
                                               const StepConfig& packed) {
  const auto offsets = trainer::document_offsets(packed);
  std::vector<at::Tensor> sum;
  double labels = 0;
  for (std::size_t d = 0; d + 1 < offsets.size(); ++d) {
    const std::int64_t length = offsets[d + 1] - offsets[d];
    const auto own = gradients_of_document(model, attention, static_cast<std::int64_t>(d), length);
    const auto weight = static_cast<double>(length - 1);
    if (sum.empty())
      for (const at::Tensor& g : own) sum.push_back(at::zeros_like(g, at::kDouble));
    for (std::size_t i = 0; i < own.size(); ++i) sum[i].add_(own[i].to(at::kDouble), weight);
    labels += weight;
  }
  for (at::Tensor& g : sum) g.div_(labels);
  return sum;
}

std::vector<at::Tensor> gradients_of_row(const model::ModelSpec& model, const StepConfig& packed) {
  const auto built = trainer::build(model, packed);
  const auto alone = trainer::make_single();
  const trainer::Data data = test::random_tokens(model.vocab);
  trainer::Rank rank(*built, *alone, data, seed);
  rank.load_weights(nullptr);
  std::vector<at::Tensor> gradients;
  rank.capture_gradients(&gradients);
  static_cast<void>(rank.step());
  return gradients;
}

void check_exact(const model::ModelSpec& model, const OptionList& options) {
  const StepConfig config = test::trainer_config(options);
  const profile::Memory predicted = advise::plan(model, config).memory;
  const test::Outcome run =
      test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
  std::string label;
  for (const auto& [option, value] : options) label += option + " " + value + " ";
  CAPTURE(label);
  test::check_planned(run, predicted, config.precision.compute_dtype == DType::f32);
}

}  // namespace

TEST_CASE("a packed row has the gradients that its documents have by themselves") {
  trainer::MemoryTracker::install();
  for (const char* name : {"tiny-llama", "llama_untied", "qwen3", "phi3", "mixtral"}) {
    const model::ModelSpec model = test::oracle_model(name);
    // 48 tokens: four of one length, five of two lengths, one that is the row
    for (const char* documents : {"4", "5", "1"})
      for (const char* attention : {"flash", "auto", "eager"}) {
        const OptionList options{
            {"--batch", "2"}, {"--seq", "24"}, {"--packing", documents}, {"--attn", attention}};
        const auto wanted = gradients_of_documents(model, attention, test::trainer_config(options));
        for (const char* loss : {"ce", "lc-ce", "chunked:20"}) {
          const StepConfig config = test::trainer_config(test::with(options, {{"--loss", loss}}));
          const std::string label = fmt::format("{} {} {} {}", name, documents, attention, loss);
          CAPTURE(label);
          CHECK(test::largest_difference(gradients_of_row(model, config), wanted) < 1e-5);
        }
      }
  }
}

TEST_CASE("a packed row's gradients are the same bits in all checkpointing modes") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  trainer::MemoryTracker::install();
  for (const char* attention : {"flash", "auto", "eager"}) {
    const OptionList options{{"--packing", "5"}, {"--attn", attention}};
    const auto none = gradients_of_row(model, test::trainer_config(options));
    for (const char* ac : {"full", "selective", "grouped:2"}) {
      CAPTURE(std::string(ac));
      CHECK(test::bit_identical(
          gradients_of_row(model, test::trainer_config(test::with(options, {{"--ac", ac}}))),
          none));
    }
  }
}

TEST_CASE("ranks with a packed row each have the gradients of one row with all their documents") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const trainer::Data data = test::random_tokens(model.vocab);
  for (const char* attention : {"flash", "eager"}) {
    const OptionList own{{"--packing", "4"}, {"--attn", attention}};
    const auto whole = test::run_steps(
        model, test::trainer_config({{"--batch", "8"}, {"--packing", "16"}, {"--attn", attention}}),
        1, data);
    for (const char* shard : {"ddp", "fsdp2", "hsdp:2"}) {
      const StepConfig config =
          test::trainer_config(test::with(own, {{"--shard", shard}, {"--world", "4"}}));
      CAPTURE(std::string(shard));
      const auto run = test::run_steps(model, config, 1, data);
      CHECK(test::largest_difference(run.gradients, whole.gradients) < 1e-6);
    }
  }
}

TEST_CASE("predicted is measured to the byte: packed documents") {
  const model::ModelSpec tiny = model::load_model("tiny-llama");
  for (const char* attention : {"flash", "auto", "eager"})
    for (const char* documents : {"1", "3", "4"})
      for (const char* ac : {"none", "full", "selective"}) {
        const OptionList options{
            {"--packing", documents}, {"--attn", attention}, {"--ac", ac}, {"--seq", "24"}};
        check_exact(tiny, options);
        check_exact(tiny, test::with(options, {{"--grad-accum", "2"}, {"--loss", "lc-ce"}}));
        check_exact(tiny, test::with(options, {{"--shard", "fsdp2"}, {"--world", "3"}}));
        check_exact(tiny, test::with(options, {{"--lora", "4"}, {"--threads", "2"}}));
        check_exact(tiny, test::with(options, {{"--param-dtype", "bf16"},
                                               {"--compute-dtype", "bf16"},
                                               {"--reduce-dtype", "bf16"}}));
      }
  for (const char* family : {"llama", "llama_untied", "qwen2", "qwen3", "phi3", "mixtral"})
    for (const char* attention : {"flash", "auto", "eager"}) {
      CAPTURE(std::string(family));
      check_exact(test::oracle_model(family),
                  {{"--packing", "5"}, {"--attn", attention}, {"--loss", "chunked:16"}});
    }
  // Documents across the sizes at which the kernel's tiles grow, 192 and 768 tokens.
  for (const char* documents : {"2", "3", "7"})
    check_exact(tiny, {{"--batch", "4"},
                       {"--seq", "400"},
                       {"--packing", documents},
                       {"--attn", "flash"},
                       {"--ac", "full"},
                       {"--loss", "lc-ce"}});
}

}  // namespace ac_advisor
