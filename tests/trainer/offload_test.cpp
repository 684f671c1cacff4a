// --offload activations on a CPU: what has left the device is in memory that is counted apart.
#include <fmt/format.h>

#include "ac_advisor/advise/advise.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

const OptionList offloaded{{"--offload", "activations"}};

test::Outcome run(const model::ModelSpec& model, const OptionList& options) {
  return test::run_steps(model, test::trainer_config(options), 2, test::random_tokens(model.vocab));
}

/// Bytes are the plan's on the device, in each phase, and on the host; numbers are those of a step
/// that leaves everything where it is.
void check_same(const model::ModelSpec& model, const OptionList& options) {
  const OptionList leaving = test::with(options, offloaded);
  const StepConfig config = test::trainer_config(leaving);
  const profile::Memory predicted = advise::plan(model, config).memory;
  const test::Outcome left = run(model, leaving), stayed = run(model, options);
  std::string label;
  for (const auto& [option, value] : options) label += option + " " + value + " ";
  CAPTURE(label);
  if (model.fused_gate_up) {  // a part of a projection comes back dense: other vectors of a loop
    CHECK(test::largest_difference(left.gradients, stayed.gradients) < 1e-6);
  } else {
    CHECK(test::bit_identical(left.gradients, stayed.gradients));
    CHECK(test::bit_identical(left.parameters, stayed.parameters));
  }
  CHECK(left.host_peak > 0);
  CHECK(left.host_peak == predicted.host_pinned);
  CHECK(stayed.host_peak == 0);
  test::check_planned(left, predicted, config.precision.compute_dtype == DType::f32);
}

}  // namespace

TEST_CASE("activations that leave the CPU's device come back as they were, to the byte and bit") {
  const model::ModelSpec tiny = model::load_model("tiny-llama");
  for (const char* ac : {"none", "full"})
    for (const char* attention : {"flash", "eager"})
      for (const char* accumulated : {"1", "3"}) {
        const OptionList options{
            {"--ac", ac}, {"--attn", attention}, {"--grad-accum", accumulated}};
        check_same(tiny, options);
        check_same(tiny, test::with(options, {{"--seq", "40"}, {"--optimizer", "sgd"}}));
        check_same(tiny, test::with(options, {{"--param-dtype", "bf16"},
                                              {"--compute-dtype", "bf16"},
                                              {"--reduce-dtype", "bf16"}}));
      }
}

TEST_CASE("activations of every family that the trainer runs leave and come back") {
  for (const char* family :
       {"gemma2", "gemma3_text", "llama", "llama_untied", "mistral", "phi3", "qwen2", "qwen3"})
    for (const char* ac : {"none", "full"}) {
      CAPTURE(std::string(family));
      check_same(test::oracle_model(family), {{"--attn", "eager"}, {"--ac", ac}, {"--seq", "24"}});
    }
  check_same(test::oracle_model("qwen3"), {{"--framework", "trl"},
                                           {"--autocast", "none"},
                                           {"--lora", "4"},
                                           {"--ac", "full"},
                                           {"--loss", "ce"}});
  for (const char* family : {"llama", "llama_untied", "qwen2", "qwen3", "phi3"})
    check_same(test::oracle_model(family), {{"--attn", "flash"}, {"--seq", "24"}});
}

}  // namespace ac_advisor
