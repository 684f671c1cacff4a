#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "model/config_text.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::int64_t hidden = 64, width = 160, blocks = 4, tokens = 2 * 256;

profile::Profile planned(std::int64_t experts, std::int64_t of_token) {
  auto config = small_config("llama4_text");
  config["num_local_experts"] = experts;
  config["num_experts_per_tok"] = of_token;
  config["head_dim"] = 16;
  return advise::plan(parse(config), resolve_options({{"--batch", "2"}, {"--seq", "256"}}));
}

}  // namespace

TEST_CASE("llama4: a block holds what every expert makes of every token, whatever is chosen") {
  const profile::Profile four = planned(4, 1), eight = planned(8, 1);
  const std::string note = "each expert computes each token";
  CHECK(std::any_of(four.assumptions.begin(), four.assumptions.end(),
                    [&](const std::string& said) { return said.find(note) == 0; }));
  // Of an expert more, in bf16: its copy of the tokens, that times their scores, gate and up, what
  // the activation makes of gate, and their product; its weights and their two moments. Gradients
  // come as backward lets go of the rest.
  const std::int64_t saved = 2 * tokens * (2 * hidden + 2 * width + width + width);
  const std::int64_t stored = 3 * 2 * 3 * hidden * width;
  const std::int64_t more = 4 * blocks * (saved + stored);
  const std::int64_t grown = eight.memory.peak_allocated - four.memory.peak_allocated;
  CHECK(grown >= more);
  CHECK(grown <= more + more / 4);  // and what one block's experts have in hand at the peak
  // Two experts a token: another top-k and its indices, a few bytes a token.
  const std::int64_t chosen = planned(4, 2).memory.peak_allocated - four.memory.peak_allocated;
  CHECK(std::abs(chosen) <= blocks * tokens * 16);
}

}  // namespace ac_advisor::test
