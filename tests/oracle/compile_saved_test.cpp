// AOTAutograd's own partitions of transformer blocks (compile_saved.py) against ours.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "passes/compile/partition.hpp"
#include "passes/compile/trace_block.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;
namespace compile = passes::compile;

const char* name_of(DType type) {
  return type == DType::f32   ? "float32"
         : type == DType::i64 ? "int64"
         : type == DType::i32 ? "int32"
         : type == DType::u8  ? "bool"
         : type == DType::f8  ? "float8"
                              : "bfloat16";
}

/// The joint graph of the model's first block, as `lower` writes it.
compile::JointGraph joint_of(const model::ModelSpec& spec, const StepConfig& config) {
  passes::StepProgram step;
  for (const passes::Pass* pass : passes::passes()) {
    const bool lowers = pass->name == std::string("lower");
    if (lowers) step.micro_begin.push_back(static_cast<ir::OpId>(step.program.ops.size()));
    if ((lowers || pass->stage == passes::Stage::before) && pass->runs(spec, config))
      pass->run(step, spec, config);
    if (lowers) break;
  }
  const ir::Program& p = step.program;
  ir::OpId first = -1, end = -1;
  ir::ValueId output = -1;
  for (ir::OpId id = 0; id < static_cast<ir::OpId>(p.ops.size()); ++id) {
    if (p.op(id).module.block != 0) continue;
    if (first < 0) first = id;
    end = id + 1;
    if (p.op(id).kind != ir::OpKind::hold) output = p.output(p.op(id), 0);
  }
  compile::TraceOptions options = compile::trace_options(spec, config);
  options.shared_layers = config.layout.tp > 1;
  return compile::trace_block(p, first, end, std::span(&output, 1), options);
}

/// A line each.
std::string sorted(std::vector<std::string> all) {
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) text += one + "\n";
  return text;
}

/// Op, shape and dtype of each saved tensor, sorted; parameters and inputs left out.
std::string described(const compile::JointGraph& graph, const std::vector<compile::NodeId>& saved) {
  std::vector<std::string> all;
  for (compile::NodeId n : saved) {
    const compile::Node& node = graph.node(n);
    if (node.target == compile::Target::placeholder) continue;
    const auto sizes = node.shape.sizes();
    all.push_back(
        json::array({compile::name_of(graph, n),
                     std::vector<std::int64_t>(sizes.begin(), sizes.end()), name_of(node.dtype)})
            .dump());
  }
  return sorted(std::move(all));
}

std::string described(const json& saved) {
  std::vector<std::string> all;
  for (const json& one : saved) all.push_back(one.dump());
  return sorted(std::move(all));
}

/// Both kinds of eight bits alike.
std::string with_one_float8(std::string text) {
  for (const char* name : {"float8_e4m3fn", "float8_e5m2"})
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name))
      text.replace(at, std::string_view(name).size(), "float8");
  return text;
}

struct Sets {
  int compared = 0, refused = 0;
};

/// Compares what each block of the file saves at each budget.
Sets compare_sets(const std::string& file) {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/" + file);
  REQUIRE(stream);
  const json document = json::parse(stream);
  Sets sets;
  for (const json& entry : document.at("cases")) {
    const std::string name = entry.at("model"), recipe = entry.value("fp8", "none");
    const model::ModelSpec spec =
        model::parse_config(document.at("models").at(name).dump(), name, name);
    OptionList options{{"--gpu", "h100-80gb"},
                       {"--kernels", "compiled"},
                       {"--attn", "cudnn"},
                       {"--batch", entry.at("batch").dump()},
                       {"--seq", entry.at("seq").dump()}};
    if (recipe != "none") options.emplace_back("--fp8", recipe);
    if (entry.contains("tp")) {
      options.emplace_back("--tp", entry.at("tp").dump());
      options.emplace_back("--world", entry.at("tp").dump());
    }
    if (entry.contains("lora")) {
      options.emplace_back("--lora", entry.at("lora").dump());
      options.emplace_back("--lora-targets", entry.at("lora_targets"));
      options.emplace_back("--lora-dtype", entry.at("lora_dtype"));
      options.emplace_back("--input-require-grads", entry.at("input_require_grads"));
    }
    const StepConfig config = resolve_options(options);
    if (passes::find_exclusion(spec, config) != nullptr) {
      ++sets.refused;
      continue;
    }
    const compile::JointGraph graph = joint_of(spec, config);
    for (const auto& [bound_budget, saved] : entry.at("saved").items()) {
      const auto& budget = bound_budget;
      INFO(name, " ", entry.at("batch"), " x ", entry.at("seq"), ", tp ", entry.value("tp", 1),
           ", fp8 ", recipe, ", adapters of ", entry.value("lora_targets", "none"), " ",
           entry.value("lora_dtype", ""), " ", entry.value("input_require_grads", ""), ", budget ",
           budget);
      CHECK(described(graph, compile::saved_values(graph, std::stod(budget))) ==
            with_one_float8(described(saved)));
      ++sets.compared;
    }
  }
  MESSAGE(sets.compared, " saved sets; ", sets.refused, " of ", document.at("cases").size(),
          " blocks are of kinds that are refused");
  return sets;
}

}  // namespace

TEST_CASE("what a compiled block saves is what AOTAutograd's partitioner saves, at seven budgets") {
  CHECK(compare_sets("compile_saved.json").compared >= 609);
}

TEST_CASE(
    "what a compiled block of torchao's layers saves is what AOTAutograd's partitioner saves") {
  CHECK(compare_sets("float8_saved.json").compared >= 434);
}

TEST_CASE("what a compiled block that ranks share saves is what AOTAutograd's partitioner saves") {
  CHECK(compare_sets("tp_saved.json").compared >= 210);
}

TEST_CASE(
    "what a compiled block with PEFT's adapters saves is what AOTAutograd's partitioner saves") {
  CHECK(compare_sets("adapter_saved.json").compared >= 420);
}

}  // namespace ac_advisor::test
