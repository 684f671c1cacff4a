#include "ac_advisor/passes/exclusion.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "passes/exclusions/cases.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

std::string page_file() { return std::string(source_dir) + "/docs/exclusions.md"; }

std::string refused(const model::ModelSpec& spec, const StepConfig& config) {
  try {
    passes::validate(spec, config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const std::span<const Case> group : {declare_cases(),
                                            graph_cases(),
                                            lower_cases(),
                                            sharding_cases(),
                                            offload_cases(),
                                            pipeline_cases(),
                                            tensor_parallel_cases(),
                                            megatron_cases(),
                                            optimizer_cases(),
                                            adapter_method_cases(),
                                            adapters_cases(),
                                            packing_cases(),
                                            context_cases(),
                                            experts_cases(),
                                            float8_cases(),
                                            compiled_cases(),
                                            litgpt_cases(),
                                            layer_cases(),
                                            task_cases(),
                                            torch_cases(),
                                            trainer_cases()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    while (word.size() > 1 && (word.back() == ',' || word.back() == ':' || word.back() == ';'))
      word.pop_back();
    words.push_back(word);
  }
  return words;
}

void leave_out(const OptionRow& row, StepConfig& c) {
  static const StepConfig plain;
  row.set(row, row.get(plain), c);
  if (row.key == "tp" || row.key == "pp" || row.key == "cp")  // as many ranks as are left
    c.layout.world =
        c.layout.shard == Sharding::none ? c.layout.tp * c.layout.pp * c.layout.cp : c.layout.world;
}

/// "use --ac full, or --shard fsdp2": each alternative's options, applied to a copy.
std::vector<StepConfig> ways_out(const passes::Exclusion& e, const StepConfig& from) {
  std::vector<StepConfig> ways;
  const std::string instead = e.instead;
  if (instead.find("plan it") != instead.npos) {
    ways.push_back(from);
    ways.back().runtime.kind = Runtime::pytorch;
  }
  if (instead.find("leave ") != instead.npos || instead.find("drop ") != instead.npos) {
    // What the row names, one at a time and all together.
    StepConfig all = from;
    for (const std::string& word : words_of(e.options))
      if (const OptionRow* row = find_option(word); row != nullptr) {
        StepConfig one = from;
        leave_out(*row, one);
        leave_out(*row, all);
        ways.push_back(std::move(one));
      }
    ways.push_back(std::move(all));
  }
  StepConfig now = from;
  bool changed = false;
  const std::vector<std::string> words = words_of(instead);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const OptionRow* row = find_option(words[i]);
    if (row == nullptr) {
      if ((words[i] == "or" || i + 1 == words.size()) && changed) {
        ways.push_back(now);
        now = from;
        changed = false;
      }
      continue;
    }
    const std::string value = row->metavar.empty() || i + 1 >= words.size() ? "" : words[i + 1];
    try {
      row->parse(*row, words[i], value, now);
      if (row->key == "shard" && now.layout.world < 2) now.layout.world = 2;
      if (row->key == "shard" && now.layout.shard == Sharding::none) now.layout.world = 1;
      changed = true;
    } catch (const UserError&) {
      // "--world N": a letter, which the user is to choose
    }
  }
  if (changed) ways.push_back(now);
  return ways;
}

/// Ways out that are no plan in one step: what they lead to has a way out of its own, or they say
/// to leave out what the case has beside.
const std::set<std::string> in_two_steps{
    "--ac memory-budget:F, --kernels other than compiled",
    "--adapter ln-tuning, a family of whose norms PEFT knows no names",
    "--adapter road:VARIANT, a layer whose outputs are no groups of 64",
    "--autocast, --shard other than none or ddp",
    "--autocast, NemotronLayerNorm1P",
    "--autocast, an LM head whose rows are divided by their length, or an RMSNorm whose division "
    "is a function of its own",
    "--autocast, where scores have a bias, are in fp32 or are computed without a kernel",
    "--compile-unit model, --ac other than none, full, every:K, selective and memory-budget:F",
    "--compile-unit model, run by the trainer",
    "--cp N --cp-method ulysses, a model whose layers are not like Llama's",
    "--cp N, a sliding window within --seq, --framework other than automodel",
    "--cp N, attention other than scaled_dot_product_attention of rotated heads",
    "--tp --no-sp, a mixture with shared experts or with biases",
    "--tp --sp, a mixture of experts, transformers' layers",
    "--fp8 RECIPE --compute-dtype fp32 or fp16",
    "--fp8 mx --autocast, or --param-dtype fp32 or fp16 without fsdp2 or hsdp:N",
    "--framework litgpt --world N, --pp, --tp or --cp",
    "--framework litgpt, a family other than gemma, gpt_neox, llama, mistral, phi and qwen2, or a "
    "model with windows or biases that theirs have not",
    "--framework litgpt, a loss other than ce, --no-hold-output or --output-dtype bf16",
    "--framework litgpt, parameters or a computation in other than bf16",
    "--framework litgpt, what its finetuning scripts have not: other adapters than LoRA, DoRA, "
    "int8, a packed row, position_ids, images, offloading, clipping, compiled or fused kernels",
    "--images N --autocast, CLIP (llava)",
    "--images N, an encoder of images of any size, without --image-pixels",
    "--kernels compiled --cuda-graph step",
    "--kernels compiled, --ac other than none, full, every:K, selective, memory-budget:F and "
    "budget:SIZE",
    "--kernels compiled, blocks other than Llama's kind, dropout, --autocast or --shard ddp, run "
    "by the trainer",
    "--lora RANK or --adapter METHOD, a family for which PEFT has no targets",
    "--master-weights --param-dtype fp16",
    "--param-dtype or --autocast of an imported graph",
    "--pp, a model whose blocks need more than hidden states",
    "--tp --autocast",
    "--tp or --pp, dropout",
    "--tp, a model whose layers are not like Llama's or Gemma's",
    "--tp, a sliding window within --seq",
    "--transformer-impl --images N",
    "--transformer-impl, --param-dtype or --compute-dtype fp32, --autocast",
    "--transformer-impl, --shard other than none, ddp or zero1",
    "MODEL by Megatron's arguments, --transformer-impl hf"};

}  // namespace

TEST_CASE("each way out that names options leads to a plan of the same model in one step") {
  int followed = 0;
  std::set<std::string> further;
  for (const Case& one : all_cases()) {
    model::ModelSpec spec = small_model();
    StepConfig config = small_config();
    one.change(spec, config);
    const passes::Exclusion* row = passes::find_exclusion(spec, config);
    REQUIRE(row != nullptr);
    const std::vector<StepConfig> ways = ways_out(*row, config);
    if (ways.empty()) continue;  // "give a --seq of …": a number, which the user is to choose
    INFO(std::string(row->options), ": ", std::string(row->instead));
    std::string next;
    for (const StepConfig& way : ways) next += "\n-> " + refused(spec, way);
    INFO(next);
    ++followed;
    const bool planned = std::any_of(ways.begin(), ways.end(), [&](const StepConfig& way) {
      return passes::find_exclusion(spec, way) == nullptr;
    });
    if (!planned) further.insert(row->options);
    CHECK((planned || in_two_steps.contains(row->options)));
  }
  CHECK(further == in_two_steps);  // what is planned now is taken off the list
  CHECK(followed >= 200);
}

TEST_CASE("each exclusion refuses its configuration, and says what, why and what instead") {
  for (const Case& one : all_cases()) {
    INFO(std::string(one.options));
    model::ModelSpec spec = small_model();
    StepConfig config = small_config();
    CHECK(refused(spec, config) == "accepted");
    one.change(spec, config);
    const std::string said = refused(spec, config);
    CHECK(said.find(one.says) != std::string::npos);
    const passes::Exclusion* row = nullptr;
    for (const passes::ExclusionGroup& group : passes::exclusions())
      for (const passes::Exclusion& e : group.exclusions)
        if (e.options == std::string(one.options)) row = &e;
    REQUIRE(row != nullptr);
    CHECK(said == passes::message(*row, spec, config));
    CHECK(said.find(row->reason) != std::string::npos);
    CHECK(said.find(row->instead) != std::string::npos);
  }
}

TEST_CASE("no exclusion is without a case here, and none stands twice") {
  std::set<std::string> tried, rows;
  for (const Case& one : all_cases()) tried.insert(one.options);
  for (const passes::ExclusionGroup& group : passes::exclusions())
    for (const passes::Exclusion& e : group.exclusions) {
      CHECK(rows.insert(e.options).second);
      INFO(std::string(e.options));
      CHECK(tried.contains(e.options));
    }
}

TEST_CASE("no row refuses what was only never compared: that is a grade") {
  std::array<int, 3> rows{};
  for (const passes::ExclusionGroup& group : passes::exclusions())
    for (const passes::Exclusion& e : group.exclusions) {
      INFO(std::string(e.options));
      CHECK(std::string(e.reason).find("compared") == std::string::npos);
      ++rows[static_cast<std::size_t>(passes::kind_of(e))];
    }
  for (const int count : rows) CHECK(count > 20);
}

TEST_CASE("docs/exclusions.md is the table of exclusions (AC_ADVISOR_UPDATE_DOCS=1 writes it)") {
  if (std::getenv("AC_ADVISOR_UPDATE_DOCS") != nullptr)
    std::ofstream(page_file()) << passes::exclusions_page();
  std::stringstream page;
  page << std::ifstream(page_file()).rdbuf();
  CHECK(page.str() == passes::exclusions_page());
}

}  // namespace ac_advisor::test
