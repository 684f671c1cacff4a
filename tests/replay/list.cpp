// Writes what replay_record plans: every step of tests/oracle/, and seeded draws over all options.
//   replay_list DRAWS
// A draw begins with a model and adds options of the table one by one; an option that the others
// refuse is mostly dropped again, so that most of what is drawn is planned with several of them.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "oracle/cases.hpp"

namespace {

using namespace ac_advisor;
using nlohmann::json;

class Random {  // splitmix64: the same draws with every standard library
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename All>
  const auto& of(const All& all) {
    return all[below(all.size())];
  }

 private:
  std::uint64_t state_;
};

/// A word of the table with numbers for its letters: "grouped:K" is grouped:2.
std::string filled(std::string_view word, Random& random) {
  static const std::map<std::string, std::vector<std::string>, std::less<>> values{
      {"SIZE", {"1GiB", "4GiB"}},
      {"F", {"0.3", "0.7"}},
      {"RATIO", {"0.01"}},
      {"VARIANT", {"0", "1", "2"}},
      {"TOKENS", {"16", "128"}},
      {"BLOCK", {"8", "16"}},
      {"PARTS", {"core_attn", "mlp", "layernorm+moe_act", "moe", "layernorm+mla_up_proj"}}};
  const auto colon = word.find(':');
  if (colon == word.npos) return std::string(word);
  const std::string letters(word.substr(colon + 1));
  const auto found = values.find(letters);
  static const std::vector<std::string> numbers{"2", "4"};
  return std::string(word.substr(0, colon + 1)) +
         random.of(found != values.end() ? found->second : numbers);
}

/// What is typed after an option that takes no word of a list.
const std::map<std::string, std::vector<std::string>, std::less<>> free_values{
    {"--framework",
     {"hf-trainer", "trl", "torchtune", "litgpt", "liger", "automodel", "torchtitan", "megatron",
      "deepspeed"}},
    {"--batch", {"1", "2", "3"}},
    {"--seq", {"64", "128", "200", "512"}},
    {"--packing", {"2", "5"}},
    {"--grad-accum", {"2", "4", "5"}},
    {"--gpu", {"h200", "a100-80gb", "rtx-4090", "b200", "l40s", "cpu"}},
    {"--world", {"2", "3", "4", "8", "16"}},
    {"--tp", {"2", "4"}},
    {"--cp", {"2", "4"}},
    {"--ep", {"2", "4"}},
    {"--etp", {"1", "2"}},
    {"--pp", {"2", "4"}},
    {"--cp-rank", {"0", "1"}},
    {"--pp-rank", {"0", "1"}},
    {"--pp-layers", {"2,2", "1,1,1,1"}},
    {"--threads", {"2"}},
    {"--optimizer-instances", {"2"}},
    {"--node-size", {"4"}},
    {"--network", {"ndr", "100"}},
    {"--clip-grad", {"1.0"}},
    {"--lora", {"8", "16"}},
    {"--lora-targets", {"all-linear", "q_proj,v_proj"}},
    {"--lora-dropout", {"0.05"}},
    {"--dropout", {"0.1"}},
    {"--capacity-factor", {"1.5"}},
    {"--images", {"1"}},
    {"--image-pixels", {"56x84"}},
    {"--freeze", {"tower", "tower,projector", "decoder"}},
    {"--cublas-workspace", {":4096:8"}}};

OptionList::value_type drawn_option(const OptionRow& row, Random& random) {
  const std::string name(row.name);
  if (row.metavar.empty())
    return {row.off.empty() || random.one_in(2) ? name : std::string(row.off), ""};
  if (const auto found = free_values.find(name); found != free_values.end())
    return {name, random.of(found->second)};
  if (!row.words.empty()) return {name, filled(random.of(row.words), random)};
  if (row.most > 0) return {name, "2"};
  return {name, "1"};
}

bool planned(const model::ModelSpec& spec, const OptionList& options) {
  try {
    return passes::find_exclusion(spec, resolve_options(options)) == nullptr;
  } catch (const UserError&) {
    return false;
  }
}

/// Options that most others ask for are drawn more often.
std::vector<const OptionRow*> rows_to_draw() {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line() || row.name == "--force") continue;
    const bool often = row.name == "--ac" || row.name == "--loss" || row.name == "--shard" ||
                       row.name == "--kernels" || row.name == "--lora" || row.name == "--quantize";
    rows.insert(rows.end(), often ? 4 : 1, &row);
  }
  return rows;
}

OptionList draw(const model::ModelSpec& spec, Random& random) {
  static const std::vector<const OptionRow*> rows = rows_to_draw();
  OptionList options{{"--batch", "2"}, {"--seq", "128"}};
  if (random.one_in(2)) options.emplace_back("--world", random.one_in(2) ? "4" : "8");
  const std::size_t more = 3 + random.below(8);
  for (std::size_t i = 0; i < more; ++i) {
    OptionList tried = options;
    auto drawn = drawn_option(*random.of(rows), random);
    std::erase_if(tried, [&](const auto& option) { return option.first == drawn.first; });
    tried.push_back(std::move(drawn));
    if (planned(spec, tried) || random.one_in(40)) options = std::move(tried);
  }
  return options;
}

struct Model {
  std::string id;
  model::ModelSpec spec;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::size_t draws = argc > 1 ? std::stoul(argv[1]) : 20'000;
  std::map<std::string, std::string> ids;  // by configuration
  std::vector<Model> small;
  const auto id_of = [&](const test::OracleCase& c) {
    const auto [found, fresh] = ids.emplace(c.config, "m" + std::to_string(ids.size()));
    if (fresh) {
      std::cout << json{{"model", found->second}, {"name", c.model}, {"config", c.config}}.dump()
                << "\n";
      model::ModelSpec spec = test::model_of(c);
      if (spec.layers <= 6) small.push_back({found->second, std::move(spec)});
    }
    return found->second;
  };
  const auto write = [](const std::string& name, const std::string& model,
                        const OptionList& options, bool dispatch) {
    json line{{"case", name}, {"model", model}, {"options", options}};
    if (dispatch) line["dispatch"] = true;
    std::cout << line.dump() << "\n";
  };
  for (const std::string& file : test::oracle_files())
    for (const test::OracleCase& c : test::read_oracle(file))
      if (!c.captured) write(file + ": " + c.label, id_of(c), c.options, c.under_dispatch_mode);
  for (std::size_t i = 0; i < draws; ++i) {
    Random random(i + 1);
    const Model& model = random.of(small);
    write("draw " + std::to_string(i + 1), model.id, draw(model.spec, random), false);
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "replay: " << error.what() << "\n";
  return 2;
}
