// The backward program against LibTorch's own autograd over the forward program.
#include <set>

#include "ac_advisor/ir/op_table.hpp"
#include "trainer/autograd_walker.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/refused_ops.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

using ir::OpKind;

/// Both ways on the same weights and tokens.
double difference(const model::ModelSpec& model, const OptionList& options,
                  std::set<OpKind>& seen) {
  trainer::MemoryTracker::install();
  const StepConfig config = test::trainer_config(options);
  const auto built = trainer::build(model, config);
  const auto alone = trainer::make_single();
  const trainer::Data data = test::random_tokens(model.vocab);
  trainer::Rank rank(*built, *alone, data, 3);
  rank.load_weights(nullptr);
  for (std::size_t i = 0; i < built->step.parameters.size(); ++i) {  // norms and biases as well
    const at::Tensor p = rank.executor().tensor(built->step.parameters[i].stored);
    p.add_(at::sin(at::arange(p.numel(), at::kFloat) * 1.7).view(p.sizes()) * 0.05);
  }
  rank.load_first_batch();
  const std::vector<at::Tensor> wanted = test::autograd_gradients(rank, seen);
  std::vector<at::Tensor> gradients;
  rank.capture_gradients(&gradients);
  static_cast<void>(rank.step());
  return test::largest_difference(gradients, wanted);
}

/// The chunked loss and 4-bit layers by transformers' and PEFT's gradients, what ranks that share a
/// layer have by one rank's (layouts_test.cpp).
bool checked_elsewhere(OpKind kind) {
  using enum OpKind;
  return kind == precomputed_grad || kind == mm_quantized || kind == gather ||
         kind == tp_all_gather || kind == tp_reduce_scatter || kind == vocab_parallel_loss ||
         kind == tp_all_reduce ||  // differentiated beside --no-sp alone, which the trainer refuses
         kind == compiled_unit || kind == ring_attention || kind == cp_all_to_all ||
         kind == weighted_loss || kind == all_to_all ||
         kind == clamp ||        // of experts that ranks share: layouts_test.cpp
         kind == vector_norm ||  // with a gradient in an LM head alone, which the trainer refuses
         kind == sigmoid ||      // within a ring, whose backward is its own: layouts_test.cpp
         kind == log || kind == log_sigmoid ||  // of pairs' losses, which the trainer refuses
         kind == scatter;  // by llama4 alone, which the trainer refuses: compared in memory only
}

}  // namespace

TEST_CASE("LibTorch's autograd gives the gradients of every family, and of every op that has one") {
  std::set<OpKind> seen;
  for (const char* family : {"gemma2", "gemma3_text", "llama", "llama_untied", "mistral", "mixtral",
                             "phi3", "qwen2", "qwen3", "qwen3_moe"}) {
    const model::ModelSpec model = test::oracle_model(family);
    for (const char* kernels : {"eager", "fused"})
      for (const char* loss : {"ce", "lc-ce"}) {
        const std::string name = family;
        CAPTURE(name);
        CAPTURE(std::string(kernels));
        const OptionList options{
            {"--attn", "eager"}, {"--kernels", kernels}, {"--loss", loss}, {"--seq", "20"}};
        CHECK(difference(model, options, seen) < 2e-5);
      }
  }
  const model::ModelSpec tiny = model::load_model("tiny-llama");
  CHECK(difference(tiny, {{"--kernels", "fused"}}, seen) < 1e-5);
  CHECK(difference(tiny, {{"--attn", "eager"}, {"--dropout", "0.2"}}, seen) < 1e-5);
  const OptionList adapters{
      {"--lora", "4"}, {"--lora-targets", "all-linear"}, {"--lora-dropout", "0.3"}};
  CHECK(difference(tiny, adapters, seen) < 1e-5);
  for (const ir::OpRow& row : ir::op_table()) {
    if (row.derive == nullptr || checked_elsewhere(row.kind)) continue;
    if (test::refused_by_trainer(row.kind)) continue;
    const std::string name = row.name;
    CAPTURE(name);
    CHECK(seen.contains(row.kind));
  }
}

}  // namespace ac_advisor
