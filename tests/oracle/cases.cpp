#include "cases.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "capture/python.hpp"
#include "model/found_config.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// {"batch": 2, "hold_output": false} as it is typed.
OptionList options_of(const json& step) {
  OptionList options;
  for (const auto& [key, value] : step.items()) {
    if (key == "model" || key == "block_modes") continue;
    const OptionRow* row = find_option_key(key);
    std::string name = "--" + key;
    std::replace(name.begin(), name.end(), '_', '-');
    if (row != nullptr && row->on_command_line()) name = row->name;
    if (!value.is_boolean() || (row != nullptr && !row->metavar.empty()))
      options.emplace_back(name, text_of(value));
    else
      options.emplace_back(value.get<bool>() ? name : "--no-" + name.substr(2), "");
  }
  return options;
}

OptionList options_of(const std::string& words) {
  OptionList options;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    if (word.starts_with("--"))
      options.emplace_back(word, "");
    else
      options.back().second = word;
  }
  return options;
}

std::string number_after(const std::string& text, const std::string& prefix) {
  return text.substr(prefix.size());
}

/// The words of the files that a dispatch mode wrote: "seg2", "hf_nokeep", "fsdp8".
OptionList options_of_storages(const json& j) {
  // A CPU's step, but for the kernels of attention that are a GPU's: foreach keeps its step
  // counters there.
  const std::string kernel = j.value("attn", "sdpa");
  const bool of_gpu = kernel == "math" || kernel == "efficient";
  OptionList options{{"--gpu", of_gpu ? "h100-80gb" : "cpu"},
                     {"--batch", text_of(j.at("batch"))},
                     {"--seq", text_of(j.at("seq"))}};
  const std::string ac = j.at("ac"), loss = j.at("loss"), sharding = j.at("sharding"),
                    optimizer = j.at("optimizer"), attention = j.value("attn", "sdpa");
  options.emplace_back("--ac", ac == "selop"             ? "selective"
                               : ac.starts_with("seg")   ? "grouped:" + number_after(ac, "seg")
                               : ac.starts_with("every") ? "every:" + number_after(ac, "every")
                                                         : ac);
  options.emplace_back("--loss", loss == "chunk" ? "chunked:1024"
                                 : loss.starts_with("chunk")
                                     ? "chunked:" + number_after(loss, "chunk")
                                     : "ce");
  options.emplace_back(loss == "hf" ? "--hold-output" : "--no-hold-output", "");
  if (sharding != "single") {
    options.emplace_back("--shard", "fsdp2");
    options.emplace_back("--world", number_after(sharding, "fsdp"));
    // The reference has one FSDP group a segment (design, section 10.5).
    options.emplace_back("--fsdp-unit", j.value("fsdp_unit", "segment"));
  }
  options.emplace_back("--optimizer", optimizer == "fused"          ? "adamw"
                                      : optimizer == "foreach"      ? "adamw-foreach"
                                      : optimizer == "sgd_momentum" ? "sgd-momentum"
                                                                    : optimizer);
  const auto dtype = [](const std::string& name) { return name == "float32" ? "fp32" : name; };
  const std::string stored = dtype(j.value("param_dtype", "bf16"));
  const json mixed = j.value("mixed_precision", json());
  options.emplace_back("--param-dtype", stored);
  options.emplace_back("--compute-dtype",
                       mixed.is_object() ? dtype(mixed.value("param", "bf16")) : stored);
  options.emplace_back("--reduce-dtype",
                       mixed.is_object() ? dtype(mixed.value("reduce", "bf16")) : stored);
  options.emplace_back("--grad-accum", text_of(j.value("grad_accum", json(1))));
  if (j.value("keep_last_block", false)) options.emplace_back("--keep-last-block", "");
  if (j.value("no_sync", false)) options.emplace_back("--no-sync", "");
  if (j.contains("dropout")) options.emplace_back("--dropout", text_of(j.at("dropout")));
  if (attention != "sdpa") options.emplace_back("--attn", attention);
  return options;
}

/// What a case does not say, its script does so (emulated_peaks.py, adapter_step.py,
/// pytorch_peaks.py): after the label, which is the case's own words.
void add_defaults_of_scripts(OracleCase& c) {
  if (c.form == CaseForm::loop) return;  // loop_step.py does what a user's loop does
  const auto value_of = [&](std::string_view name) {
    std::string value;
    for (const auto& [option, text] : c.options)
      if (option == name) value = text;
    return value;
  };
  const std::string framework = value_of("--framework");
  const bool plain = framework.empty() || framework == "hf";
  if ((plain || c.form == CaseForm::adapters) && !given(c.options, "--held-until"))
    c.options.emplace_back("--held-until", "backward");
  if (plain && value_of("--shard") == "ddp" && !given(c.options, "--gradient-as-bucket-view") &&
      !given(c.options, "--no-gradient-as-bucket-view"))
    c.options.emplace_back("--gradient-as-bucket-view", "");
  const bool kbit = given(c.options, "--kbit-prepare") || given(c.options, "--no-kbit-prepare");
  if (kbit && !given(c.options, "--ac-reentrant") && !given(c.options, "--no-ac-reentrant"))
    c.options.emplace_back("--no-ac-reentrant", "");
}

/// A step of a training tool's own, by what its file says: its options are those that the file
/// becomes, with what no file says, by hand.
void read_training_case(const json& step, OracleCase& c) {
  OptionList given;
  for (const char* key : {"images", "image_pixels", "prompt"})
    if (step.contains(key)) {
      std::string name = "--" + std::string(key);
      std::replace(name.begin(), name.end(), '_', '-');
      given.emplace_back(name, text_of(step.at(key)));
    }
  const model::ModelSpec spec = model::parse_config(c.config, c.model, c.model);
  const intake::Training training = intake::read_training(
      {c.model + ".yaml", step.at("tool"), given, {}, {}, &spec}, step.at("training").dump());
  if (!training.unknown.empty()) throw std::runtime_error("unknown: " + training.unknown.front());
  c.options = training.options;
  c.options.insert(c.options.end(), given.begin(), given.end());
  c.options.emplace_back("--gpu", "h100-80gb");
}

/// The reference names its two models instead of their type.
json with_model_type(json config, const std::string& model) {
  if (!config.contains("model_type"))
    config["model_type"] = model.starts_with("qwen3") ? "qwen3" : "llama";
  return config;
}

void read_case(const json& document, const json& j, OracleCase& c) {
  if (j.contains("case")) {
    const json& step = j.at("case");
    c.form = CaseForm::counters;
    c.model = step.at("model");
    c.config = document.at("models").at(c.model).dump();
    if (step.contains("training")) return read_training_case(step, c);
    c.options = options_of(step);
    if (!given(c.options, "--gpu")) c.options.emplace_back("--gpu", "h100-80gb");
    // What an H100 runs; a memory budget, a model as one graph and windows ask for its name.
    if (!step.contains("attn") && step.value("kernels", "") == "compiled")
      c.options.emplace_back("--attn", "cudnn");
  } else if (j.at("options").is_string()) {
    c.form = CaseForm::loop;
    c.model = j.at("model");
    c.config = document.at("models").at(c.model).dump();
    c.options = options_of(j.at("options").get<std::string>());
  } else {
    c.form = CaseForm::adapters;
    c.model = j.at("label").get<std::string>();
    c.model = c.model.substr(0, c.model.find(' '));
    c.config = j.at("config").dump();
    c.options = options_of(j.at("options"));
    if (!given(c.options, "--attn")) c.options.emplace_back("--attn", "flash");
  }
}

json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return json::parse(stream);
}

bool has_steps(const json& document) {
  if (!document.is_object() || !document.contains("cases") || document.at("cases").empty())
    return false;
  const json& first = document.at("cases").at(0);
  if (first.contains("case")) return document.contains("models");  // else of graphs
  return first.contains("peak_bytes") || first.contains("allocated") ||
         first.contains("peak_allocated");
}

/// A file whose cases count a step's peaks; limit_peaks.json has limits instead.
bool has_peaks(const json& document) {
  return has_steps(document) && !document.at("cases").at(0).contains("limits");
}

std::filesystem::path folder() { return std::filesystem::path(source_dir) / "tests/oracle"; }

/// A teacher's or a critic's configuration is a file of its own, as what the option takes.
void find_teacher(OracleCase& c) {
  for (auto& [option, value] : c.options)
    if (option == "--teacher" || option == "--critic")
      value = folder() / (option == "--teacher" ? "teachers" : "critics") / (value + ".json");
}

}  // namespace

std::vector<OracleCase> read_oracle(const std::string& file) {
  const json document = read_json(folder() / file);
  std::vector<OracleCase> cases;
  if (!has_steps(document)) return cases;
  std::map<std::string, int> labels;
  for (const json& j : document.at("cases")) {
    OracleCase c;
    c.entry = j;
    c.captured = document.value("captured", false);
    if (j.contains("peak_bytes")) {
      c.form = CaseForm::storages;
      c.model = j.at("model");
      c.config = with_model_type(j.at("config"), c.model).dump();
      c.options = options_of_storages(j);
      c.under_dispatch_mode = !j.contains("live_at_forward");  // else real tensors, exact bytes
    } else {
      read_case(document, j, c);
    }
    if (document.contains("torch")) c.options.emplace_back("--torch", document.at("torch"));
    c.label = c.model;
    for (const auto& [name, value] : c.options)
      c.label += " " + name + (value.empty() ? "" : " " + value);
    if (const int times = ++labels[c.label]; times > 1) c.label += " #" + std::to_string(times);
    find_teacher(c);
    add_defaults_of_scripts(c);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<std::string> oracle_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".json" && has_peaks(read_json(entry.path())))
      files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  return files;
}

std::string cannot_capture(const std::string& file) {
  const json document = read_json(folder() / file);
  if (!document.is_object() || !document.value("captured", false)) return "";
  try {
    static_cast<void>(dryrun::emulator_folder());
    const capture::Python python = capture::find_python("");
    const std::string source = document.at("source");
    for (const std::string& version :
         {"PyTorch " + python.torch, "transformers " + python.transformers})
      if (source.find(version) == std::string::npos)
        return python.path + " has " + version + ", and the steps are of " + source;
  } catch (const UserError& why) {
    return why.what();
  }
  return "";
}

model::ModelSpec model_of(const OracleCase& one) {
  capture::Settings settings;
  if (one.captured) settings.when = capture::When::always;  // what has a family now, too
  return capture::load_model(model::FoundConfig{one.config, one.model, one.model}, "", one.options,
                             settings);
}

StepConfig config_of(const OracleCase& one) {
  StepConfig config = resolve_options(one.options);
  config.runtime.under_dispatch_mode = one.under_dispatch_mode;
  return config;
}

}  // namespace ac_advisor::test
