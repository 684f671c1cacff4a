// Model FLOPs utilization: of what trains, in the dtype that computes.
#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::test {
namespace {

constexpr const char* llama = R"({"model_type": "llama", "hidden_size": 1024,
  "intermediate_size": 2816, "num_hidden_layers": 4, "num_attention_heads": 16,
  "num_key_value_heads": 16, "head_dim": 64, "vocab_size": 32000, "tie_word_embeddings": false})";

constexpr double batch = 2, seq = 512, tokens = batch * seq, h = 1024, f = 2816, blocks = 4,
                 vocab = 32000;

profile::Profile planned(OptionList options) {
  options.insert(options.begin(),
                 {{"--batch", "2"}, {"--seq", "512"}, {"--gpu", "h100-80gb"}, {"--attn", "flash"}});
  return advise::plan(model::parse_config(llama, "llama", "llama"), resolve_options(options),
                      false);
}

/// FLOPs of a forward's layers: four of h x h, three of h x f, and the head.
constexpr double layers = 2 * tokens * (blocks * (4 * h * h + 3 * h * f) + vocab * h);

double model_flops(const profile::Profile& p, double peak) {
  return p.time.mfu * p.time.step * peak;
}

}  // namespace

TEST_CASE("mfu counts three forwards where all is trained, recomputed or not") {
  const double peak = simulate::find_device("h100-80gb").bf16_flops;
  const double plain = model_flops(planned({}), peak);
  // Scores and their products with values: 4 x tokens x keys x h, of which causal attention has
  // half.
  const double attention = 4 * tokens * seq * h * blocks;
  CHECK(plain >= 3 * (layers + attention / 2) * 0.99);
  CHECK(plain <= 3 * (layers + attention) * 1.01);
  CHECK(model_flops(planned({{"--ac", "full"}}), peak) == doctest::Approx(plain).epsilon(1e-6));
  CHECK(model_flops(planned({{"--loss", "chunked:256"}}), peak) ==
        doctest::Approx(plain).epsilon(1e-6));
}

TEST_CASE("mfu of a frozen base counts two forwards, at the peak of the dtype that computes") {
  const simulate::Device& device = simulate::find_device("h100-80gb");
  const OptionList adapted{{"--lora", "16"}};
  const double all = model_flops(planned({}), device.bf16_flops),
               frozen = model_flops(planned(adapted), device.bf16_flops);
  CHECK(frozen < 0.72 * all);
  CHECK(frozen > 0.60 * all);
  // NF4 computes in bf16, whatever the rest is stored in.
  for (const char* dtype : {"bf16", "fp32"}) {
    OptionList quantized = adapted;
    quantized.emplace_back("--quantize", "nf4");
    quantized.emplace_back("--param-dtype", dtype);
    const profile::Profile p = planned(quantized);
    CHECK(p.time.mfu > 0);
    CHECK(p.time.mfu < 1);
  }
}

}  // namespace ac_advisor::test
