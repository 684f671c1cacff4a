// NeMo AutoModel's guide on gradient checkpointing (September 2025): Llama-3.2-1B, H100-80GB, local
// batch 8, sequence 2048, AdamW, data parallel over 8; torch.cuda.max_memory_allocated() in GiB.
// The guide's figures stand here and nowhere in src/.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {
namespace {

/// Its batches carry position_ids, as its mock and packed data sets have them.
double planned_gib(OptionList options) {
  options.insert(options.begin(), {{"--framework", "automodel"},
                                   {"--gpu", "h100-80gb"},
                                   {"--batch", "8"},
                                   {"--seq", "2048"},
                                   {"--position-ids", ""}});
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const profile::Profile p = advise::plan(model, resolve_options(options), false);
  return static_cast<double>(p.memory.peak_allocated) / (1024.0 * 1024.0 * 1024.0);
}

}  // namespace

TEST_CASE("--framework automodel reproduces the documented savings table to its last digit") {
  const auto printed = [](const OptionList& options) {
    return fmt::format("{:.2f}", planned_gib(options));
  };
  CHECK(printed({{"--ac", "none"}, {"--loss", "ce"}, {"--world", "1"}, {"--shard", "none"}}) ==
        "53.03");
  CHECK(printed({{"--ac", "none"}, {"--loss", "ce"}, {"--world", "8"}}) == "47.59");
  CHECK(printed({{"--ac", "full"}, {"--loss", "ce"}, {"--world", "8"}}) == "33.06");
  CHECK(printed({{"--ac", "full"}, {"--loss", "lc-ce"}, {"--world", "8"}}) == "7.30");
}

TEST_CASE("block scope, which the guide's release did not have, lowers the third row") {
  const double submodule = planned_gib({{"--ac", "full"}, {"--loss", "lc-ce"}, {"--world", "8"}});
  const double block = planned_gib(
      {{"--ac", "full"}, {"--ac-scope", "block"}, {"--loss", "lc-ce"}, {"--world", "8"}});
  CHECK(block < submodule);
}

}  // namespace ac_advisor::test
