// --kernels compiled --cuda-graph segments: torch.compile(model, mode="reduce-overhead").
#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {
namespace {

profile::Profile planned(const char* name, const char* batch, const char* seq, const char* graphs) {
  return advise::plan(model::load_model(name),
                      resolve_options({{"--kernels", "compiled"},
                                       {"--compile-unit", "model"},
                                       {"--attn", "cudnn"},
                                       {"--batch", batch},
                                       {"--seq", seq},
                                       {"--cuda-graph", graphs}}),
                      false);
}

}  // namespace

TEST_CASE(
    "a step that replays its graphs allocates what is outside of them, and reserves the rest") {
  const profile::Profile without = planned("llama-3.2-1b", "8", "2048", "off"),
                         with = planned("llama-3.2-1b", "8", "2048", "segments");
  // Outside in forward: parameters, moments, their fused AdamW's step counters, the batch. In
  // backward also the logits' gradient of zeros, bf16, and the loss's.
  const std::int64_t zeros = std::int64_t{8} * 2048 * 128256 * 2;
  CHECK(with.memory.peak_allocated == with.memory.resident + zeros + 512);
  CHECK(with.memory.peak_allocated < without.memory.peak_allocated / 2);
  CHECK(with.memory.peak_reserved > 0.9 * static_cast<double>(without.memory.peak_reserved));
  CHECK(with.memory.peak_reserved > with.memory.peak_allocated);
}

TEST_CASE("where the host is the slower one, replayed graphs make the step faster") {
  const profile::Profile without = planned("tiny-llama", "1", "128", "off"),
                         with = planned("tiny-llama", "1", "128", "segments");
  CHECK(with.time.step < 0.9 * without.time.step);
}

}  // namespace ac_advisor::test
