// Steps whose blocks torch.compile made, on the emulated device (compile_peaks.py), against plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "advise/budget.hpp"
#include "peaks.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

/// Phases of PyTorch's step, and the profile's.
struct NamedPhase {
  const char* name;
  std::size_t index;
};
constexpr std::array phases{NamedPhase{"forward", 0}, NamedPhase{"loss", 1},
                            NamedPhase{"backward", 2}, NamedPhase{"optimizer", 4}};

double percent(std::int64_t planned, std::int64_t counted) {
  return std::abs(static_cast<double>(planned - counted)) / static_cast<double>(counted) * 100;
}

struct Worst {
  double allocated = 0, reserved = 0, phases = 0, launches = 0;
  int cases = 0;
};

void compare(const json& entry, const profile::Profile& p, Worst& worst) {
  ++worst.cases;
  worst.allocated =
      std::max(worst.allocated, percent(p.memory.peak_allocated, entry.at("peak_allocated")));
  worst.reserved =
      std::max(worst.reserved, percent(p.memory.peak_reserved, entry.at("peak_reserved")));
  for (const NamedPhase& phase : phases) {
    if (!entry.at("launches").contains(phase.name)) continue;  // of a whole model's graph
    std::int64_t counted = 0, planned = p.kernels.launches[phase.index];
    for (const json& activity : entry.at("launches").at(phase.name))
      counted += activity.get<std::int64_t>();
    if (phase.index == 2) planned += p.kernels.launches[3];  // recomputation is in it
    INFO(phase.name, ": planned ", planned, " launches, PyTorch ", counted);
    // OLMo 2 and 3 have up to two kernels a block more or less in their forward.
    const bool olmo = entry.at("case").at("model").get<std::string>().starts_with("olmo");
    // An eager loss is no part of a compiled block: emulated_peaks.json has it.
    if (phase.index == 1) {
      CHECK(std::abs(planned - counted) <= 2);
    } else {
      CHECK(percent(planned, counted) <= (olmo ? 6.8 : 5.1));
      worst.launches = std::max(worst.launches, percent(planned, counted));
    }
    const std::int64_t allocated = p.memory.peak_by_phase[phase.index];
    worst.phases = std::max(worst.phases, percent(allocated, entry.at("allocated").at(phase.name)));
  }
  CHECK(percent(p.memory.peak_allocated, entry.at("peak_allocated")) <= 1);
}

/// What budget: chooses for each block.
json chosen(const model::ModelSpec& spec, const StepConfig& config) {
  profile::Profile saved;
  saved.config = advise::solve(spec, config, simulate::find_device(config.device.gpu)).settled;
  return json::parse(profile::to_json(saved)).at("config").at("block_modes");
}

}  // namespace

TEST_CASE(
    "plans of compiled blocks and models meet what PyTorch's own counters say on the emulated "
    "device") {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/compile_peaks.json");
  REQUIRE(stream);
  const json document = json::parse(stream);
  Worst worst, worst_model, worst_replayed;
  int compared = 0, refused = 0;
  for (const json& entry : document.at("cases")) {
    const json& step = entry.at("case");
    INFO(step.dump());
    const std::string name = step.at("model");
    const model::ModelSpec spec =
        model::parse_config(document.at("models").at(name).dump(), name, name);
    json asked = step;
    asked.erase("block_modes");
    OptionList options = options_of_case(asked);
    // What an H100 runs; a memory budget asks for its name.
    if (!step.contains("attn") && step.at("kernels") == "compiled")
      options.emplace_back("--attn", "cudnn");
    const StepConfig config = resolve_options(options);
    if (passes::find_exclusion(spec, config) != nullptr) {
      ++refused;
      continue;
    }
    // Of a budget PyTorch ran what was chosen when the case was measured.
    if (step.contains("block_modes")) REQUIRE(chosen(spec, config) == step.at("block_modes"));
    compare(entry, advise::plan(spec, config, false),
            config.runtime.cuda_graph != CudaGraph::off        ? worst_replayed
            : config.memory.compile_unit == CompileUnit::model ? worst_model
                                                               : worst);
    ++compared;
  }
  MESSAGE(compared, " cases, ", refused, " refused; worst errors: allocated ", worst.allocated,
          " %, phases ", worst.phases, " %, reserved ", worst.reserved, " %, launches ",
          worst.launches, " %; of whole models ", worst_model.allocated, " %, ", worst_model.phases,
          " %, ", worst_model.reserved, " %, ", worst_model.launches, " %; of ",
          worst_replayed.cases, " in CUDA graphs ", worst_replayed.allocated, " %, ",
          worst_replayed.phases, " %, ", worst_replayed.reserved, " %, ", worst_replayed.launches,
          " %");
  CHECK(compared >= 282);
  CHECK(worst_replayed.cases >= 9);
  CHECK(worst_replayed.phases <= 0.001);
  CHECK(worst_replayed.reserved <= 5);
  CHECK(worst.allocated <= 0.02);
  CHECK(worst.phases <= 0.1);
  CHECK(worst_model.allocated <= 0.5);
  CHECK(worst_model.phases <=
        1);  // Mistral's forward with full checkpointing holds one tensor less
}

}  // namespace ac_advisor::test
