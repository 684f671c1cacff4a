// PEFT's and bitsandbytes' steps on the emulated device, against their plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "ac_advisor/simulate/reserved.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

struct AdapterCase {
  std::string label;
  model::ModelSpec model;
  StepConfig config;
  std::int64_t workspace = 0, reserved = 0, parameters = 0, trainable = 0;
  /// Allocated, cuBLAS's workspaces taken off: the step, its forward, backward and optimizer.
  std::array<std::int64_t, 4> peaks{};
};

constexpr std::array<const char*, 4> names{"allocated", "forward", "backward", "optimizer"};

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

StepConfig config_of(const json& options) {
  OptionList list;
  if (!options.contains("attn")) list.emplace_back("--attn", "flash");
  for (const auto& [key, value] : options.items()) {
    const OptionRow* row = find_option_key(key);
    if (row == nullptr) throw std::runtime_error("no option " + key);
    const bool off = value.is_boolean() && !value.get<bool>();
    list.emplace_back(off ? row->off : row->name, value.is_boolean() ? "" : text_of(value));
  }
  return resolve_options(list);
}

std::vector<AdapterCase> read_cases(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path);
  const json document = json::parse(stream);
  std::vector<AdapterCase> cases;
  for (const json& j : document.at("cases")) {
    AdapterCase c;
    c.label = j.at("label");
    c.model = model::parse_config(j.at("config").dump(), path, c.label);
    c.config = config_of(j.at("options"));
    c.workspace = j.at("workspace");
    c.reserved = j.at("reserved");
    c.parameters = j.at("parameters");
    c.trainable = j.at("trainable");
    for (std::size_t i = 0; i < names.size(); ++i)
      c.peaks[i] = j.at(names[i]).get<std::int64_t>() - c.workspace;
    cases.push_back(std::move(c));
  }
  return cases;
}

struct AdapterPlan {
  std::array<std::int64_t, 4> peaks{};
  std::int64_t reserved = 0, trainable = 0;
};

/// By the allocator's replica: a block that is not split counts whole, as in PyTorch's counters.
AdapterPlan plan_case(const AdapterCase& c) {
  passes::validate(c.model, c.config);
  const passes::StepProgram step = passes::build_step(c.model, c.config);
  const passes::Schedule schedule = passes::make_schedule(step);
  simulate::MemoryModel model;  // an H100, which the cases were emulated on
  // of the forward's thread, of autograd's; c.workspace has cuBLASLt's beside them
  model.cublas_workspace = 2 * simulate::find_device("h100-80gb").cublas_workspace_bytes;
  AdapterPlan planned;
  std::array<std::int64_t, ir::phase_count> peaks{};
  ir::OpId last = ir::no_id;
  bool second = false;
  planned.reserved =
      simulate::walk_allocator(
          step, schedule, model, 2, {},
          [&](const simulate::CachingAllocator& allocator, const simulate::Request& request) {
            if (last != ir::no_id &&
                request.op == ir::no_id)  // at the end: what the optimizer left
              peaks[4] = std::max(peaks[4], allocator.allocated() - c.workspace);
            second = second || request.op < last;
            last = request.op;
            if (!second || request.frees || request.op == ir::no_id) return;
            auto& peak = peaks[static_cast<std::size_t>(step.program.op(request.op).phase)];
            peak = std::max(peak, allocator.allocated() - c.workspace);
          })
          .peak_reserved;
  const std::int64_t backward = std::max(peaks[2], peaks[3]),
                     forward = std::max(peaks[0], peaks[1]);
  planned.peaks = {std::max({forward, backward, peaks[4]}), forward, backward, peaks[4]};
  for (const passes::Parameter& parameter : step.parameters)
    if (parameter.trained) planned.trainable += step.program.value(parameter.value).shape.numel();
  return planned;
}

double relative(std::int64_t got, std::int64_t want) {
  return std::abs(static_cast<double>(got - want)) / static_cast<double>(want);
}

}  // namespace

TEST_CASE("adapters over a frozen base meet PEFT and bitsandbytes on the emulated device") {
  const char* other = std::getenv("AC_ADVISOR_ADAPTER_CASES");
  const std::vector<AdapterCase> cases = read_cases(
      other != nullptr ? other : std::string(source_dir) + "/tests/oracle/adapter_peaks.json");
  REQUIRE((other != nullptr || cases.size() >= 240));
  std::vector<double> allocated, reserved;
  std::size_t equal = 0;
  for (const AdapterCase& c : cases) {
    INFO(c.label);
    const AdapterPlan planned = plan_case(c);
    for (std::size_t i = 0; i < names.size(); ++i) {
      INFO(names[i], ": planned ", planned.peaks[i], ", PyTorch ", c.peaks[i], ", more by ",
           planned.peaks[i] - c.peaks[i]);
      // What the optimizer meets is small: blocks of int8 weights that were not split tell more.
      CHECK(relative(planned.peaks[i], c.peaks[i]) <= (i == 3 ? 0.007 : 0.005));
    }
    CHECK(planned.trainable == c.trainable);
    CHECK(model::parameter_count(c.model) + planned.trainable == c.parameters);
    if (std::getenv("AC_ADVISOR_ADAPTER_CASES") != nullptr)
      MESSAGE(c.label, ": forward ", planned.peaks[1] - c.peaks[1], ", backward ",
              planned.peaks[2] - c.peaks[2], ", optimizer ", planned.peaks[3] - c.peaks[3],
              ", reserved ", planned.reserved - c.reserved);
    allocated.push_back(relative(planned.peaks[0], c.peaks[0]));
    reserved.push_back(relative(planned.reserved, c.reserved));
    equal += planned.peaks == c.peaks;
  }
  // In seven a block as large as the logits is found free, or not (docs/adapters.md).
  const auto near =
      std::count_if(reserved.begin(), reserved.end(), [](double error) { return error <= 0.02; });
  if (other == nullptr) {
    CHECK(static_cast<std::size_t>(near) * 100 >= cases.size() * 95);
    CHECK(equal >= 130);
  }
  std::sort(allocated.begin(), allocated.end());
  std::sort(reserved.begin(), reserved.end());
  MESSAGE(cases.size(), " cases, ", equal, " equal to the byte in every phase, ", near,
          " reserved within 2 %; allocated: median ", 100 * allocated[allocated.size() / 2],
          " %, worst ", 100 * allocated.back(), " %; reserved: median ",
          100 * reserved[reserved.size() / 2], " %, worst ", 100 * reserved.back(), " %");
}

}  // namespace ac_advisor::test
