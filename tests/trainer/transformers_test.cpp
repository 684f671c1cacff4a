// Against Hugging Face transformers' own models with the same weights (tests/oracle/models, written
// by tests/oracle/transformers_reference.py): logits, loss and every gradient.
#include <fmt/format.h>

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "test_paths.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"
#include "trainer/weights/safetensors.hpp"

namespace ac_advisor {
namespace {

void compare(const std::string& family, const OptionList& options) {
  const std::string folder = std::string(test::source_dir) + "/tests/oracle/models/" + family;
  const model::ModelSpec model = model::load_model(folder);
  const trainer::Weights weights(folder);
  const trainer::SafetensorsFile expected(folder + "/expected.safetensors");
  const at::Tensor ids = test::read_all(expected, "ids");
  OptionList all{{"--batch", "2"}, {"--seq", "24"}};
  all.insert(all.end(), options.begin(), options.end());
  const StepConfig config = test::trainer_config(all);
  const auto built = trainer::build(model, config);
  const trainer::Data data = [&](std::int64_t, at::Tensor to) { to.copy_(ids); };
  const auto alone = trainer::make_single();
  trainer::MemoryTracker::install();
  trainer::Rank rank(*built, *alone, data, 1);
  rank.load_weights(&weights);
  std::vector<at::Tensor> gradients, wanted;
  rank.capture_gradients(&gradients);
  const double loss = rank.step().loss;
  CAPTURE(family);
  CHECK(loss == doctest::Approx(test::read_all(expected, "loss").item<double>()).epsilon(1e-6));
  if (config.memory.loss == LossKind::ce) {
    const at::Tensor logits = rank.executor().tensor(built->step.outputs[0]);
    CHECK(test::largest_difference({logits}, {test::read_all(expected, "logits")}) < 1e-5);
  }
  for (const std::size_t i : built->trained)
    wanted.push_back(test::read_all(expected, "grad." + built->parameters[i].name));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(built->parameters[built->trained[i]].name);
    CHECK(test::largest_difference({gradients[i]}, {wanted[i]}) < 1e-5);
  }
}

constexpr const char* families[] = {"llama",  "llama_untied", "mistral", "qwen2",   "qwen3",
                                    "gemma2", "gemma3_text",  "phi3",    "mixtral", "qwen3_moe"};

}  // namespace

TEST_CASE("transformers' gradients under torch.autocast are met within bf16's rounding") {
  for (const char* family : {"llama", "qwen3"}) {
    const std::string folder = std::string(test::source_dir) + "/tests/oracle/models/" + family;
    const trainer::Weights weights(folder);
    const trainer::SafetensorsFile wide(folder + "/expected.safetensors"),
        expected(folder + "/autocast.safetensors");
    const at::Tensor ids = test::read_all(wide, "ids");
    const auto built = trainer::build(model::load_model(folder),
                                      test::trainer_config({{"--batch", "2"},
                                                            {"--seq", "24"},
                                                            {"--attn", "eager"},
                                                            {"--autocast", "bf16"},
                                                            {"--compute-dtype", "bf16"}}));
    const trainer::Data data = [&](std::int64_t, at::Tensor to) { to.copy_(ids); };
    const auto alone = trainer::make_single();
    trainer::MemoryTracker::install();
    trainer::Rank rank(*built, *alone, data, 1);
    rank.load_weights(&weights);
    std::vector<at::Tensor> gradients;
    rank.capture_gradients(&gradients);
    CAPTURE(family);
    CHECK(rank.step().loss ==
          doctest::Approx(test::read_all(expected, "loss").item<double>()).epsilon(1e-3));
    // Far nearer to PyTorch's under autocast than either is to fp32's.
    double off = 0, rounding = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const std::string name = "grad." + built->parameters[built->trained[i]].name;
      const at::Tensor wanted = test::read_all(expected, name);
      CAPTURE(name);
      CHECK((gradients[i].scalar_type() == at::kFloat));
      CHECK(test::largest_difference({gradients[i]}, {wanted}) < 2e-2);
      off += test::largest_difference({gradients[i]}, {wanted});
      rounding += test::largest_difference({test::read_all(wide, name)}, {wanted});
    }
    CHECK(off < 0.2 * rounding);
  }
}

TEST_CASE("transformers' logits, loss and gradients are met by every family, eager kernels") {
  for (const char* family : families) compare(family, {{"--attn", "eager"}});
}

TEST_CASE("transformers' loss and gradients are met by every family, fused kernels") {
  for (const char* family : families)
    compare(family, {{"--attn", "eager"}, {"--kernels", "fused"}});
}

TEST_CASE("transformers' gradients are met by flash attention where no window is in the way") {
  for (const char* family : {"llama", "llama_untied", "qwen2", "qwen3", "phi3", "mixtral"})
    compare(family, {{"--attn", "flash"}, {"--kernels", "fused"}});
}

TEST_CASE("transformers' loss and gradients are met by lc-ce, soft caps included") {
  for (const char* family : families)
    for (const char* kernels : {"eager", "fused"})
      compare(family, {{"--attn", "eager"}, {"--loss", "lc-ce"}, {"--kernels", kernels}});
}

TEST_CASE("transformers' loss and gradients are met by the chunked loss") {
  for (const char* family : {"llama", "llama_untied", "mistral", "qwen3", "phi3", "mixtral"})
    compare(family, {{"--attn", "eager"}, {"--loss", "chunked:16"}});
}

}  // namespace ac_advisor
