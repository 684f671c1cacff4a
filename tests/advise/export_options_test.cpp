// Over seeded draws of the option table: what plan refuses is not exported, and of two plans that
// differ in an option the files or their notes differ, so no option is lost without a word.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/passes/exclusion.hpp"

using namespace ac_advisor;

namespace {

/// Of the machine, of what is shown, of the trainer, or of experts that a model has not: no file
/// of a framework's says it.
constexpr std::string_view of_no_file[] = {
    "--framework", "--gpu",     "--threads", "--node-size",       "--network",
    "--cp-rank",   "--pp-rank", "--force",   "--capacity-factor", "--balanced-routing"};

/// What has no effect on such a step, so that there is nothing to say: bitsandbytes' states of
/// embeddings with an optimizer of torch's, a bucket's dtype on one rank, an UNIT of eager blocks.
bool acts(const OptionRow& row, const StepConfig& c) {
  if (row.key == "fp32_embedding_states")
    return c.optimizer.kind == Optimizer::adamw_8bit ||
           c.optimizer.kind == Optimizer::paged_adamw_8bit;
  if (row.key == "score_batch")  // as many as a micro-batch has, said or not
    return c.task.score_batch != c.run.batch;
  if (row.key == "reduce_dtype")  // main gradients of Megatron-core are in fp32 on one rank, too
    return c.layout.fsdp() || (c.megatron() && c.layout.replica_ranks() > 1);
  if (row.key == "no_sync") return c.layout.replica_ranks() > 1 && c.run.grad_accum > 1;
  if (row.key == "ac_scope") return c.memory.ac != AcMode::none;
  if (row.key == "held_until_next_forward" || row.key == "overlap_comm") return !c.megatron();
  return true;
}

std::string filled(std::string word) {
  const std::pair<const char*, const char*> letters[] = {
      {"SIZE", "40GiB"},    {"TOKENS", "512"}, {"RATIO", "0.01"}, {"RANK:FACTOR", "8:4"},
      {"RANK:MINI", "8:4"}, {"RANK", "8"},     {"BLOCK", "32"},   {"VARIANT", "1"},
      {":K", ":2"},         {":V", ":2"},      {":F", ":0.5"},    {":N", ":4"}};
  for (const auto& [letter, value] : letters)
    if (const std::size_t at = word.find(letter); at != std::string::npos)
      word.replace(at, std::string(letter).size(), value);
  return word;
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  template <typename List>
  const auto& one_of(const List& list) {
    return list[std::uniform_int_distribution<std::size_t>(0, std::size(list) - 1)(random_)];
  }
  bool chance(int of) { return std::uniform_int_distribution<int>(1, of)(random_) == 1; }

  std::pair<std::string, std::string> option() {
    for (;;) {
      const OptionRow& row = option_table()[std::uniform_int_distribution<std::size_t>(
          0, option_table().size() - 1)(random_)];
      if (!row.on_command_line() ||
          std::find(std::begin(of_no_file), std::end(of_no_file), row.name) != std::end(of_no_file))
        continue;
      const std::string name(row.metavar.empty() && !row.off.empty() && chance(2) ? row.off
                                                                                  : row.name);
      if (row.metavar.empty()) return {name, ""};
      if (!row.words.empty()) return {name, filled(std::string(one_of(row.words)))};
      if (row.most > 0)
        return {name, std::to_string(1 << std::uniform_int_distribution(0, 3)(random_))};
      if (row.key == "lora_targets") return {name, chance(2) ? "all-linear" : "q_proj,v_proj"};
      if (row.key == "pp_layers") return {name, "16,16"};
      if (row.key == "cublas_workspace") return {name, ":4096:8"};
      return {name, chance(2) ? "0.5" : "0.0000001"};
    }
  }

 private:
  std::mt19937 random_;
};

struct Written {
  std::string text;  ///< of the file and of its notes
};

std::optional<Written> written(const std::string& target, const model::ModelSpec& model,
                               const StepConfig& config) {
  try {
    const advise::ExportResult result = advise::export_setting(target, model, config);
    Written all{result.text};
    for (const std::string& note : result.notes) all.text += note + "\n";
    return all;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::optional<StepConfig> resolved(const OptionList& options) {
  try {
    return resolve_options(options);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("of the options of a plan each is in the exported file, refused, or told") {
  std::vector<model::ModelSpec> models;
  for (const char* name : {"llama-3.1-8b", "llama-3.2-1b", "qwen3-0.6b", "mistral-7b"})
    models.push_back(model::load_model(name));
  Draws draws(40);
  std::size_t exported = 0, compared = 0;
  for (int n = 0; n < 10400; ++n) {
    const std::string target = draws.one_of(advise::export_targets());
    const model::ModelSpec& model = draws.one_of(models);
    const std::string framework =
        target == "hf" ? (draws.chance(2) ? "trl" : "hf-trainer") : target;
    OptionList options{{"--framework", draws.chance(4) ? "hf" : framework}, {"--seq", "1024"}};
    if (draws.chance(2)) options.emplace_back("--world", "8");
    if (target == "megatron" && draws.chance(2))
      options.emplace_back("--transformer-impl", "transformer_engine");
    const std::size_t fixed = options.size();
    for (int k = 0; k < 3; ++k) options.push_back(draws.option());
    const auto config = resolved(options);
    if (!config) continue;
    const auto file = written(target, model, *config);
    if (!file) continue;
    ++exported;
    std::string typed;
    for (const auto& [option, value] : options) typed += option + " " + value + " ";
    CAPTURE(target);
    CAPTURE(model.name);
    CAPTURE(typed);
    CHECK(passes::find_exclusion(model, *config) == nullptr);
    if (exported % 16 == 0) CHECK_NOTHROW(static_cast<void>(advise::plan(model, *config, false)));
    for (std::size_t i = fixed; i < options.size(); ++i) {
      const OptionRow& row = *find_option(options[i].first);
      OptionList fewer = options;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const auto other = resolved(fewer);
      if (!other || row.text(*other) == row.text(*config) || !acts(row, *config)) continue;
      const auto without = written(target, model, *other);
      ++compared;
      CAPTURE(row.name);
      if (without) CHECK(without->text != file->text);
    }
  }
  // The draw says something: a fifth of it can be exported.
  CHECK(exported > 500);
  CHECK(compared > 300);
}
