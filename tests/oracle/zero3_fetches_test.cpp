// The hooks of DeepSpeed's ZeRO 3 in a micro-batch with a complete trace (zero3_fetches.py), and
// the planner's.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/sharding/zero3_calls.hpp"
#include "passes/sharding/zero3_fetches.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;
using passes::FetchAction;
using passes::ModuleCall;

json cases() {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/zero3_fetches.json");
  REQUIRE(stream);
  return json::parse(stream).at("cases");
}

/// A module of the file: any path that no other has.
ModuleCall call_of(const json& c, const std::string& name) {
  ModuleCall call;
  std::int16_t number = 0;
  for (const auto& [other, own] : c.at("modules").items()) {
    if (other == name) {
      call.module.block = number;
      call.parameters = own.get<std::vector<std::size_t>>();
    }
    ++number;
  }
  return call;
}

passes::Zero3Fetches coordinator(const json& c) {
  std::vector<std::int64_t> elements;
  std::vector<bool> persistent;
  for (const json& parameter : c.at("parameters")) {
    elements.push_back(parameter.at(0));
    persistent.push_back(parameter.at(1));
  }
  std::vector<ModuleCall> trace;
  for (const json& hook : c.at("hooks"))
    if (hook.at(0).get<std::string>().starts_with("fetch")) trace.push_back(call_of(c, hook.at(1)));
  const json& limits = c.at("limits");
  return {elements,
          persistent,
          trace,
          {limits.at("stage3_prefetch_bucket_size"), limits.at("stage3_max_live_parameters"),
           limits.at("stage3_max_reuse_distance")}};
}

struct Done {
  std::vector<std::vector<std::size_t>> gathers;
  std::vector<std::size_t> freed;
  bool operator==(const Done&) const = default;
};

Done done_by(const std::vector<FetchAction>& actions) {
  Done done;
  for (const FetchAction& action : actions) {
    if (action.kind == FetchAction::Kind::gather) done.gathers.push_back(action.parameters);
    if (action.kind == FetchAction::Kind::free) done.freed.push_back(action.parameters.front());
  }
  std::sort(done.freed.begin(), done.freed.end());
  return done;
}

// --- the planner's hooks ------------------------------------------------------------------------

/// transformers' name of a Llama's module.
std::string name_of(ir::ModulePath path) {
  using ir::Module;
  if (path == ir::ModulePath{-1, Module::root}) return "";
  if (path == ir::ModulePath{-1, Module::lm_head}) return "lm_head";
  if (path == passes::inner_model) return "model";
  const std::map<Module, std::string> ends = {{Module::embed, "embed_tokens"},
                                              {Module::rotary, "rotary_emb"},
                                              {Module::final_norm, "norm"}};
  if (path.block < 0) return "model." + ends.at(path.leaf);
  const std::map<Module, std::string> parts = {{Module::block, ""},
                                               {Module::norm1, ".input_layernorm"},
                                               {Module::attention, ".self_attn"},
                                               {Module::q_proj, ".self_attn.q_proj"},
                                               {Module::k_proj, ".self_attn.k_proj"},
                                               {Module::v_proj, ".self_attn.v_proj"},
                                               {Module::o_proj, ".self_attn.o_proj"},
                                               {Module::norm2, ".post_attention_layernorm"},
                                               {Module::mlp, ".mlp"},
                                               {Module::gate_proj, ".mlp.gate_proj"},
                                               {Module::up_proj, ".mlp.up_proj"},
                                               {Module::activation, ".mlp.act_fn"},
                                               {Module::down_proj, ".mlp.down_proj"}};
  return "model.layers." + std::to_string(path.block) + parts.at(path.leaf);
}

/// The first micro-batch's ops as the pass zero3 finds them.
passes::StepProgram before_zero3(const model::ModelSpec& spec, const StepConfig& config) {
  passes::StepProgram step;
  const auto run = [&](passes::Stage stage) {
    for (const passes::Pass* pass : passes::passes()) {
      if (std::string(pass->name) == "zero3") return;
      if (pass->stage == stage && pass->runs(spec, config)) pass->run(step, spec, config);
    }
  };
  run(passes::Stage::before);
  step.micro_begin.push_back(0);
  run(passes::Stage::micro_batch);
  return step;
}

/// What can gather or free something: all that begins, and what ends with parameters of its own.
std::vector<std::string> hooks_of(const json& c) {
  const auto spec = model::parse_config(c.at("config").dump(), "case", "case");
  const StepConfig config = resolve_options({{"--world", "2"},
                                             {"--shard", "zero3"},
                                             {"--batch", "1"},
                                             {"--seq", "64"},
                                             {"--attn", "flash"},
                                             {"--ac", c.at("ac")}});
  const passes::StepProgram step = before_zero3(spec, config);
  std::vector<std::string> hooks;
  for (const passes::ModuleHook& hook : passes::module_hooks(step.program.ops)) {
    const std::string name = name_of(hook.module);
    if (!hook.begins && c.at("modules").at(name).empty()) continue;
    hooks.push_back((hook.begins ? "fetch " : "release ") +
                    std::string(hook.forward ? "forward " : "backward ") + name);
  }
  return hooks;
}

}  // namespace

TEST_CASE("ZeRO 3's hooks gather and free the parameters that DeepSpeed's do, in its order") {
  for (const json& c : cases()) {
    passes::Zero3Fetches fetches = coordinator(c);
    std::size_t number = 0;
    for (const json& hook : c.at("hooks")) {
      const std::string what = hook.at(0), name = hook.at(1);
      INFO(c.at("ac"), " ", c.at("limits").dump(), " hook ", number++, " ", what, " ", name);
      const bool forward = what.ends_with("forward");
      const Done done =
          done_by(what == "end backward"      ? fetches.end_backward()
                  : what.starts_with("fetch") ? fetches.fetch(call_of(c, name), forward)
                                              : fetches.release(call_of(c, name), forward));
      const Done expected{hook.at(2), hook.at(3)};
      CHECK(done.gathers == expected.gathers);
      CHECK(done.freed == expected.freed);
    }
  }
}

TEST_CASE("the modules' hooks are found in the ops in the order in which DeepSpeed's run") {
  for (const json& c : cases()) {
    INFO(c.at("ac"), " ", c.at("config").dump());
    std::vector<std::string> expected;
    for (const json& hook : c.at("hooks")) {
      const std::string what = hook.at(0), name = hook.at(1);
      if (what == "end backward") continue;
      if (what.starts_with("release") && c.at("modules").at(name).empty()) continue;
      expected.push_back(what + " " + name);
    }
    CHECK(hooks_of(c) == expected);
  }
}

}  // namespace ac_advisor::test
