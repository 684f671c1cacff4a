// The rest of a training loop: torch.nn.utils.clip_grad_norm_ by its formula, autocast, held logits
// in fp32, and the plan's bytes of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ac_advisor/advise/advise.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {

TEST_CASE("clipped gradients are the gradients times min(1, max / (norm + 1e-6))") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const auto run = [&](const char* clip, const OptionList& more) {
    return test::run_steps(
        model,
        test::trainer_config(test::with({{"--optimizer", "sgd"}, {"--clip-grad", clip}}, more)), 1,
        test::random_tokens(model.vocab));
  };
  for (const OptionList& more :
       {OptionList{}, OptionList{{"--world", "2"}, {"--shard", "ddp"}, {"--batch", "1"}}}) {
    const test::Outcome plain = run("0", more);
    double squares = 0;
    for (const at::Tensor& g : plain.gradients)
      squares += g.to(at::kDouble).square().sum().item<double>();
    const double norm = std::sqrt(squares);
    for (const double most : {0.25 * norm, 4 * norm}) {
      const test::Outcome clipped = run(fmt::format("{:.6f}", most).c_str(), more);
      CHECK(test::bit_identical(clipped.gradients, plain.gradients));  // as they were before
      const double coefficient = std::min(1.0, most / (norm + 1e-6));
      double moved = 0;
      // The default learning rate, in SGD without momentum: p - lr * g.
      for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
        const at::Tensor before =
            plain.parameters[i].to(at::kDouble) + 1e-3 * plain.gradients[i].to(at::kDouble);
        const at::Tensor wanted = before - 1e-3 * coefficient * plain.gradients[i].to(at::kDouble);
        const double off =
            (clipped.parameters[i].to(at::kDouble) - wanted).abs().max().item<double>();
        CHECK(off < 2.5e-7);  // parameters near 1, of fp32, rounded twice
        moved = std::max(moved,
                         (clipped.parameters[i] - plain.parameters[i]).abs().max().item<double>());
      }
      CHECK((coefficient < 1 ? moved > 2.5e-6 : moved == 0.0));
    }
  }
}

TEST_CASE("clipping: predicted is measured to the byte") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* optimizer : {"adamw", "adamw-foreach", "sgd"})
    for (const char* shard : {"none", "ddp", "fsdp2", "hsdp:2"})
      for (const char* lora : {"0", "4"}) {
        OptionList options{{"--seq", "24"},    {"--optimizer", optimizer}, {"--clip-grad", "1"},
                           {"--shard", shard}, {"--lora", lora},           {"--ac", "full"},
                           {"--loss", "lc-ce"}};
        if (std::string_view(shard) != "none") options.emplace_back("--world", "4");
        const StepConfig config = test::trainer_config(options);
        const std::string label = fmt::format("{} {} lora {}", optimizer, shard, lora);
        CAPTURE(label);
        const profile::Memory predicted = advise::plan(model, config).memory;
        const test::Outcome run =
            test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
        CHECK(run.peak == predicted.peak_allocated);
        CHECK(run.by_phase[4] == predicted.peak_by_phase[4]);
      }
}

TEST_CASE("clipping: the norm of shards is that of whole gradients") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList clipped{{"--seq", "24"}, {"--optimizer", "sgd"}, {"--clip-grad", "0.2"}};
  const auto run = [&](const OptionList& more) {
    return test::run_steps(model, test::trainer_config(test::with(clipped, more)), 2,
                           test::random_tokens(model.vocab));
  };
  const test::Outcome alone = run({{"--batch", "4"}});
  const test::Outcome free = run({{"--batch", "4"}, {"--clip-grad", "0"}});
  CHECK(test::largest_difference(free.parameters, alone.parameters) > 1e-5);
  for (const char* shard : {"ddp", "fsdp2", "hsdp:2"}) {
    CAPTURE(shard);
    const test::Outcome ranks = run({{"--batch", "1"}, {"--shard", shard}, {"--world", "4"}});
    CHECK(test::largest_difference(ranks.parameters, alone.parameters) < 1e-6);
  }
}

TEST_CASE("autocast, a loss without upcast and held fp32 logits are predicted to the byte") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList autocast{{"--autocast", "bf16"}, {"--compute-dtype", "bf16"}};
  const OptionList narrow{
      {"--param-dtype", "bf16"}, {"--compute-dtype", "bf16"}, {"--reduce-dtype", "bf16"}};
  const OptionList cases[] = {
      autocast,
      test::with(autocast, {{"--ac", "full"}, {"--attn", "eager"}}),
      test::with(autocast, {{"--ac", "selective"}, {"--kernels", "fused"}}),
      test::with(autocast, {{"--lora", "4"}, {"--clip-grad", "1"}}),
      test::with(autocast, {{"--lora", "4"}, {"--quantize", "nf4"}}),
      test::with(autocast, {{"--shard", "ddp"}, {"--world", "2"}, {"--grad-accum", "2"}}),
      test::with(autocast, {{"--loss", "ce-no-upcast"}}),
      test::with(narrow, {{"--loss", "ce-no-upcast"}}),
      {{"--loss", "ce-no-upcast"}},
      test::with(narrow, {{"--output-dtype", "fp32"}}),
      test::with(narrow, {{"--output-dtype", "fp32"}, {"--ac", "full"}})};
  for (const OptionList& options : cases) {
    const StepConfig config = test::trainer_config(test::with({{"--seq", "24"}}, options));
    std::string label;
    for (const auto& [name, value] : options) label += name + " " + value + " ";
    CAPTURE(label);
    const profile::Memory predicted = advise::plan(model, config).memory;
    const test::Outcome run =
        test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
    CHECK(run.declared_peak == predicted.peak_excluding_workspace);
    for (std::size_t i = 0; i < 5; ++i)
      if (i != 3)  // recomputation is inside backward
        CHECK(std::max(run.declared_by_phase[i], i == 2 ? run.declared_by_phase[3] : 0) ==
              predicted.peak_by_phase_excluding_workspace[i]);
  }
}

}  // namespace ac_advisor
