// A walk along the table of options: no row without each of the places that are made from it.
#include "ac_advisor/model/option_table.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "cli/command_table.hpp"
#include "cli/generate.hpp"
#include "cli/help.hpp"
#include "gate/compare.hpp"
#include "reports/command_line.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// "grouped:2" of "grouped:K", "budget:1GiB" of "budget:SIZE", "memory-budget:0.5" of ":F".
std::string example(std::string_view word) {
  if (word.starts_with("vllm:tp")) return "vllm:tp2,util=0.5,sleep=1";
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos || word.starts_with("expandable")) return std::string(word);
  if (word.ends_with(":PARTS")) return "modules:core_attn+layernorm";
  const bool part = word.ends_with(":F") || word.ends_with(":RATIO") || word.ends_with(":SHARE");
  const char* argument = word.ends_with("SIZE") ? ":1GiB" : part ? ":0.5" : ":2";
  return std::string(word.substr(0, colon)) + argument;
}

/// Texts that the option takes beside its default.
std::vector<std::string> examples(const OptionRow& row) {
  if (row.metavar.empty()) return {""};
  if (row.name == "--pp-rank" || row.name == "--cp-rank") return {"1", "0"};
  if (row.name == "--reshard-after-forward") return {"false", "4"};
  std::vector<std::string> texts;
  for (const std::string_view word : row.words) texts.push_back(example(word));
  if (!texts.empty()) return texts;
  if (row.most > 0) return {std::to_string(row.least), std::to_string(row.least + 1)};
  if (row.name == "--framework") return {"liger", "hf"};
  if (row.name == "--teacher" || row.name == "--critic") return {"qwen2.5-1.5b", "llama-3.2-1b"};
  if (row.name == "--gpu") return {"a100-80gb", "cpu"};
  if (row.name == "--dropout") return {"0.25"};
  if (row.name == "--capacity-factor") return {"1.25"};
  if (row.name == "--lora-targets") return {"q_proj,v_proj", "all-linear"};
  if (row.name == "--lora-dropout") return {"0.25"};
  if (row.name == "--network") return {"12.5"};
  if (row.name == "--clip-grad") return {"0.5"};
  if (row.name == "--pp-layers") return {"4,4"};
  if (row.name == "--image-pixels") return {"448x672", "56x28"};
  if (row.name == "--freeze") return {"tower", "projector,decoder"};
  if (row.name == "--cublas-workspace") return {":4096:8", ":16:8"};
  FAIL("no example of " << row.name << ": add one here");
  return {};
}

/// The example among others that it may need.
OptionList given(const OptionRow& row, const std::string& text) {
  OptionList list;
  if (row.name.starts_with("--pp-")) list.emplace_back("--pp", "2");
  if (row.name != "--world") list.emplace_back("--world", "8");
  if (row.name == "--world" && text != "1") list.emplace_back("--shard", "fsdp2");
  if (row.name == "--image-pixels" || row.name == "--freeze" || row.name == "--tower-ac")
    list.emplace_back("--images", "1");
  if (row.name == "--grad-compression") list.emplace_back("--shard", "ddp");
  if (row.name == "--shard" && text == "none") list.clear();
  if (row.name == "--autocast") list.clear();
  if (row.name == "--transformer-impl")
    list.emplace_back("--framework",
                      text == "transformer_engine" || text == "local" ? "megatron" : text);
  if (row.name.starts_with("--cp-")) list.emplace_back("--cp", "2");
  if (row.name == "--ep") list.emplace_back("--shard", "fsdp2");
  if (row.name == "--optimizer-instances" || row.name == "--etp" || row.name == "--deterministic" ||
      row.name == "--gradient-accumulation-fusion")
    list.insert(list.end(), {{"--framework", "megatron"}, {"--transformer-impl", "local"}});
  if (row.name == "--optimizer-instances") list.emplace_back("--shard", "zero1");
  if (row.name == "--ac-scope" || row.name == "--ac-reentrant") list.emplace_back("--ac", "full");
  if (row.name == "--ac-reentrant" || row.name == "--gradient-as-bucket-view")
    list.emplace_back("--shard", "ddp");
  if (row.name == "--backward-prefetch") list.emplace_back("--shard", "fsdp1");
  if (row.name == "--overlap-comm") list.emplace_back("--shard", "zero2");
  if (row.group == OptionGroup::adapters && row.name != "--lora") list.emplace_back("--lora", "8");
  const bool of_reference = row.name == "--ref", of_prompt = row.name == "--prompt";
  if ((row.name == "--task" && text != "ppo") || of_reference || of_prompt)
    list.emplace_back("--framework", "trl");
  if (row.name == "--phase-offload" || row.name == "--score-batch" || row.name == "--entropy-loss")
    list.insert(list.end(), {{"--framework", "verl"}, {"--prompt", "8"}});
  if (row.name.starts_with("--critic") || (row.name == "--task" && text == "ppo"))
    list.insert(list.end(), {{"--framework", "verl"}, {"--task", "ppo"}, {"--prompt", "8"}});
  if (row.name == "--fsdp-unit" && text == "verl") list.emplace_back("--shard", "fsdp2");
  if (row.name == "--rollout" || row.name == "--completion" || row.name == "--group")
    list.insert(list.end(), {{"--framework", "trl"}, {"--task", "grpo"}, {"--prompt", "8"}});
  if (row.name == "--task" && (text == "grpo" || text == "rloo"))
    list.emplace_back("--prompt", "8");
  const bool distills = row.name == "--task" && text == "distillation";
  if (row.name == "--teacher")
    list.insert(list.end(), {{"--framework", "trl"}, {"--task", "distillation"}});
  if (distills) list.emplace_back("--teacher", "llama-3.2-1b");
  if (distills || row.name == "--teacher") list.emplace_back("--prompt", "8");
  if (row.name == "--task" && text == "kto") list.emplace_back("--batch", "2");
  if (of_prompt || (of_reference && text != "none")) list.emplace_back("--task", "dpo");
  if (of_reference && text == "adapter") list.emplace_back("--lora", "8");
  if (row.name == "--stable-embedding" || row.name == "--bitsandbytes")
    list.insert(list.end(), {{"--framework", "litgpt"}, {"--quantize", "nf4"}});
  list.emplace_back(row.name, text);
  return list;
}

std::string file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(test::source_dir) + "/" + path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("every row of the option table has its name, key, help, group, reader and printer") {
  std::set<std::string_view> names, keys;
  for (const OptionRow& row : option_table()) {
    CAPTURE(std::string(row.key));
    CHECK(keys.insert(row.key).second);
    CHECK_FALSE(row.help.empty());
    CHECK(
        (row.parse != nullptr && row.get != nullptr && row.text != nullptr && row.set != nullptr));
    CHECK(row.on_command_line() == (row.group != OptionGroup::internal));
    CHECK(find_option_key(row.key) == &row);
    if (!row.on_command_line()) continue;
    CHECK(names.insert(row.name).second);
    CHECK(row.name.starts_with("--"));
    CHECK(find_option(row.name) == &row);
    if (!row.off.empty()) CHECK(find_option(row.off) == &row);
    // A value's default is said where it is explained.
    if (!row.metavar.empty()) CHECK_MESSAGE(row.help.ends_with(")"), row.help);
    if (row.needs == nullptr) continue;
    CHECK_FALSE(row.needs->because.empty());
    CHECK_FALSE(row.needs->instead.empty());
    CHECK(row.is_default(StepConfig{}));
  }
}

TEST_CASE("every option is in help, completion, the man page and the schema") {
  const std::string help = cli::command_help("plan", 80, cli::HelpExtent::all),
                    bash = cli::bash_completion(), zsh = cli::zsh_completion(),
                    fish = cli::fish_completion(), man = cli::man_page();
  const nlohmann::json schema = nlohmann::json::parse(cli::options_schema());
  for (const OptionRow& row : option_table()) {
    const std::string name(row.name);
    CAPTURE(name);
    CHECK(schema.at("properties").contains(row.key));
    if (!row.on_command_line()) continue;
    const bool negated = row.off == "--no-" + name.substr(2);
    const std::string shown = negated ? "--[no-]" + name.substr(2) : name;
    CHECK(
        contains(help, "  " + shown + (row.metavar.empty() ? "" : " " + std::string(row.metavar))));
    CHECK(contains(help, title_of(row.group)));
    CHECK(contains(bash, name));
    CHECK(contains(zsh, "'" + name + "["));
    CHECK(contains(fish, " -l " + name.substr(2) + " "));
    std::string roff;
    for (const char c : name) roff += c == '-' ? "\\-" : std::string(1, c);
    CHECK(contains(man, roff));
    CHECK(contains(bash, row.off));
    CHECK(contains(zsh, row.off));
  }
  for (const cli::CommandRow& command : cli::command_table()) {
    CAPTURE(std::string(command.name));
    CHECK((command.run != nullptr));
    CHECK(command.example.starts_with("ac-advisor " + std::string(command.name)));
    CHECK(contains(man, command.name));
    std::set<std::string_view> own;
    for (const cli::ShownOption& option : cli::shown_options(command))
      CHECK_MESSAGE(own.insert(option.name).second, option.name);
  }
}

TEST_CASE("docs/schema/config-1.json is what generate schema writes") {
  // ac-advisor generate schema --output docs/schema/config-1.json
  CHECK(file("docs/schema/config-1.json") == cli::options_schema());
}

TEST_CASE("every value of every option is printed as it is read, and goes through JSON") {
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line()) continue;
    for (const std::string& text : examples(row)) {
      CAPTURE(std::string(row.name));
      CAPTURE(text);
      StepConfig config;
      row.parse(row, row.name, text, config);
      if (!row.metavar.empty()) CHECK(row.text(config) == text);
      StepConfig from_text;
      row.parse(row, row.name, row.metavar.empty() ? "" : row.text(config), from_text);
      CHECK(from_text == config);
      StepConfig from_json;
      row.set(row, row.get(config), from_json);
      if (row.name == "--autocast") {  // in what it computes is another field
        const OptionRow& dtype = *find_option("--compute-dtype");
        dtype.set(dtype, dtype.get(config), from_json);
      }
      CHECK(from_json == config);
    }
  }
}

TEST_CASE("every option comes back from the command to plan it again, and from a baseline") {
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line()) continue;
    for (const std::string& text : examples(row)) {
      CAPTURE(std::string(row.name));
      CAPTURE(text);
      const StepConfig config = resolve_options(given(row, text));
      const auto again = reports::options_of(config);
      REQUIRE(again);
      CHECK(profile::config_fields(resolve_options(*again)) == profile::config_fields(config));
      CHECK(gate::option_of_field(std::string(row.key)) == row.name);
    }
  }
}

TEST_CASE("an option at its default is in a file only if files of version 1 had it") {
  std::set<std::string> saved;
  for (const profile::Field& field : profile::saved_config_fields({})) saved.insert(field.name);
  for (const OptionRow& row : option_table())
    CHECK((saved.count(std::string(row.key)) == 1) == !row.newer);
  StepConfig config;
  config.device.threads = 2;
  saved.clear();
  for (const profile::Field& field : profile::saved_config_fields(config)) saved.insert(field.name);
  CHECK(saved.count("threads") == 1);
  CHECK(saved.count("cuda_graph") == 0);
}

TEST_CASE("every option of the step can be the axis of a sweep") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line() || row.metavar.empty()) continue;
    CAPTURE(std::string(row.name));
    advise::Space space;
    space.set(std::string(row.name), examples(row));
    StepConfig base;
    // Liger, which Hugging Face's Trainer runs, chooses the chunk of a chunked loss itself.
    if (row.key == "loss") base.runtime.framework = "automodel";
    for (const StepConfig& config : advise::combinations(model, base, space)) {
      const std::vector<std::string> all = examples(row);
      CHECK((std::find(all.begin(), all.end(), row.text(config)) != all.end()));
    }
    space = {};
    space.keep(std::string(row.name), StepConfig{});
    REQUIRE(space.axes.size() == 1);
    CHECK(space.axes[0].values == std::vector<std::string>{row.text(StepConfig{})});
  }
}

TEST_CASE("what an option needs is refused by hand with the conflict, and dropped from a preset") {
  for (const OptionRow& row : option_table()) {
    if (row.needs == nullptr) continue;
    CAPTURE(std::string(row.name));
    if (row.name == "--transformer-impl") {  // what it needs depends on its own value
      CHECK_THROWS_WITH_AS(static_cast<void>(resolve_options({{row.name.data(), "torchtitan"}})),
                           doctest::Contains("has layers of its own"), UserError);
      continue;
    }
    if (row.name == "--router-aux-loss") {  // the default framework's loop has it
      CHECK_THROWS_WITH_AS(static_cast<void>(resolve_options(
                               {{"--framework", "automodel"}, {row.name.data(), "on"}})),
                           doctest::Contains("use --framework hf, hf-trainer or trl"), UserError);
      continue;
    }
    bool refused = false;
    for (const char* loss : {"ce", "lc-ce"})
      for (const char* ac : {"none", "selective", "full", "full, sharded"}) {
        const bool sharded = ac == std::string("full, sharded");
        if (sharded) ac = "full";
        StepConfig like;
        like.layout.shard = sharded ? Sharding::fsdp2 : Sharding::ddp;
        like.memory.loss = loss == std::string("ce") ? LossKind::ce : LossKind::lc_ce;
        like.memory.ac = ac == std::string("none")   ? AcMode::none
                         : ac == std::string("full") ? AcMode::full
                                                     : AcMode::selective;
        if (row.needs->holds(like)) continue;
        OptionList list{
            {"--world", "2"}, {"--shard", shard_option(like)}, {"--ac", ac}, {"--loss", loss}};
        // Its default may be written: it changes nothing.
        for (const std::string& text : examples(row)) {
          OptionList with = list;
          const bool turned_off = !row.off.empty() && row.text(StepConfig{}) == "true";
          const std::string name(turned_off ? row.off : row.name);
          with.emplace_back(name, text);
          try {
            static_cast<void>(resolve_options(with));
          } catch (const UserError& error) {
            refused = true;
            const std::string what = error.what();
            CHECK(contains(what, row.needs->conflict(like)));
            CHECK(contains(what, row.needs->because));
            CHECK(contains(what, "drop " + name));
          }
        }
      }
    CHECK(refused);
  }
}
