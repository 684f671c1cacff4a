// What cannot run on a device, or is not planned there, is refused before it is planned.
#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

using namespace ac_advisor;

namespace {

profile::Profile planned(const char* model, const OptionList& options) {
  StepConfig config = resolve_options(options);
  config.runtime.kind = Runtime::ac_trainer;
  return advise::plan(model::load_model(model), config);
}

}  // namespace

TEST_CASE("a graph holds no experts where their grouped product asks the host") {
  const OptionList graph{{"--cuda-graph", "step"}};
  const auto on = [&](const char* gpu) {
    OptionList options = graph;
    options.emplace_back("--gpu", gpu);
    return options;
  };
  // GroupedBlas.cpp of torch 2.11: compute capabilities 9 and 10 have the grouped product.
  CHECK_NOTHROW(static_cast<void>(planned("qwen3-30b-a3b", on("h100"))));
  CHECK_NOTHROW(static_cast<void>(planned("qwen3-30b-a3b", on("b200"))));
  for (const char* gpu : {"a100-80gb", "rtx-4090"})
    CHECK_THROWS_WITH_AS(static_cast<void>(planned("qwen3-30b-a3b", on(gpu))),
                         doctest::Contains("waits for the device"), UserError);
  CHECK_NOTHROW(static_cast<void>(planned("llama-3.2-1b", on("a100-80gb"))));
}

TEST_CASE("compiled experts are planned where bf16 is added up by atomics") {
  // torch/_inductor/utils.py of torch 2.11: from compute capability 9.0 on.
  const auto plan = [](const char* model, const char* gpu) {
    const StepConfig config = resolve_options({{"--kernels", "compiled"}, {"--gpu", gpu}});
    return advise::plan(model::load_model(model), config, false);
  };
  CHECK_NOTHROW(static_cast<void>(plan("qwen3-30b-a3b", "h100-80gb")));
  CHECK_NOTHROW(static_cast<void>(plan("llama-3.2-1b", "a100-80gb")));
  CHECK_THROWS_WITH_AS(static_cast<void>(plan("qwen3-30b-a3b", "a100-80gb")),
                       doctest::Contains("atomics"), UserError);
}
