#include "ac_advisor/capture/capture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/version.hpp"
#include "cache.hpp"
#include "files/fingerprint.hpp"
#include "graph/lifetimes.hpp"
#include "model/found_config.hpp"
#include "model/reading.hpp"
#include "model/unknown_architecture.hpp"
#include "process/ending_signals.hpp"
#include "python.hpp"

namespace ac_advisor::capture {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What a capture depends on beside the configuration.
struct Asked {
  std::int64_t batch = 1, seq = 1;
  bool wide = false;      ///< parameters in fp32
  bool autocast = false;  ///< the forward under torch.autocast in bf16
  std::string gpu;
};

const char* dtype_of(const Asked& asked) { return asked.wide ? "fp32" : "bf16"; }

/// In words, and in those of a key.
std::string precision_of(const Asked& asked) {
  return std::string(dtype_of(asked)) + (asked.autocast ? " with autocast" : "");
}

/// A graph of that size and dtype of which nothing else is known: what may be asked of any. It has
/// as many blocks as a graph may: how many there are is for the captured one to say.
model::ModelSpec any_graph(const Asked& asked, const std::string& name) {
  graph::Graph g;
  g.name = name;
  g.batch = asked.batch;
  g.seq = asked.seq;
  g.autocast = asked.autocast;
  g.modules.assign(1 + graph::most_blocks, {"", -1});
  g.blocks.resize(graph::most_blocks);
  std::iota(g.blocks.begin(), g.blocks.end(), 1);
  g.storages = {asked.wide ? 4 : 2};
  g.tensors = {{0, asked.wide ? graph::DType::float32 : graph::DType::bfloat16, {1}}};
  g.parameters = {{"weight", 0, true, 0}};
  for (graph::MicroBatch& micro : g.micro_batches) micro.gradients = {{0, 0, 0}};
  return model::of_graph(std::make_shared<const graph::Graph>(std::move(g)));
}

/// Throws UserError for what no graph can take, before one is made.
Asked asked_of(const OptionList& options, const std::string& name) {
  const StepConfig typed = resolve_options(options);
  const Precision& p = typed.precision;
  const Asked asked{typed.run.batch, typed.run.seq, p.param_dtype == DType::f32,
                    p.autocast && p.compute_dtype == DType::bf16, typed.device.gpu};
  const model::ModelSpec any = any_graph(asked, name);
  passes::validate(any, advise::resolve(any, options).config);
  return asked;
}

/// The emulated device's library and all Python beside it: what a capture is made by.
std::string own_code() {
  const fs::path folder = dryrun::emulator_folder();
  std::set<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(
           folder, fs::directory_options::follow_directory_symlink, error))
    if (const fs::path kind = entry.path().extension(); kind == ".py" || kind == ".so")
      files.insert(entry.path());
  std::string all;
  for (const fs::path& file : files)
    all += file.lexically_relative(folder).string() + "\n" + read_file(file).value_or("") + "\n";
  return all;
}

std::string key_of(const model::FoundConfig& config, const Asked& asked, const Python& python) {
  const std::string of_capture = fmt::format(
      "{} x {} {} {} {} torch {} transformers {} ac-advisor {}\n", asked.batch, asked.seq,
      precision_of(asked), asked.gpu, simulate::find_device(asked.gpu).figures, python.torch,
      python.transformers, version);
  return files::fingerprint(of_capture + files::fingerprint(own_code()) + "\n" + config.text);
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "it said nothing";
  const std::size_t begin = text.find_last_of('\n', end) + 1;  // of none: 0
  return text.substr(begin, end + 1 - begin);
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \r") - begin + 1));
}

/// What Python's last traceback ends with: the exception's first line that says something. Frames
/// are indented, and a message may go on for lines. Without a traceback the last line.
std::string exception_of(const std::string& text) {
  constexpr std::string_view traceback = "Traceback (most recent call last):\n";
  const std::size_t found = text.rfind(traceback);
  if (found == std::string::npos) return last_line(text);
  std::istringstream behind(text.substr(found + traceback.size()));
  std::string exception;
  for (std::string line; std::getline(behind, line);) {
    if (exception.empty() && line.starts_with(' ')) continue;
    line = trimmed(line);
    if (line.empty()) continue;
    exception += (exception.empty() ? "" : " ") + line;
    if (!line.ends_with(':')) break;
  }
  return exception.empty() ? last_line(text) : exception;
}

/// The words after `ac-advisor import --gpu NAME --`.
std::vector<std::string> command_of(const Asked& asked, const Python& python,
                                    const std::string& config, const std::string& output) {
  std::vector<std::string> words{python.path, "-m", "ac_advisor.capture", "--config", config};
  for (const auto& [option, value] :
       {std::pair<const char*, std::string>{"--batch", std::to_string(asked.batch)},
        {"--seq", std::to_string(asked.seq)},
        {"--dtype", dtype_of(asked)}}) {
    words.emplace_back(option);
    words.push_back(value);
  }
  if (asked.autocast) words.emplace_back("--autocast");
  words.insert(words.end(), {"--output", output});
  return words;
}

void refuse_interrupted() {
  if (process::EndingSignals::first() != 0) throw UserError("the capture was interrupted");
}

/// The graph's text.
std::string run_capture(const model::FoundConfig& config, const Asked& asked, const Python& python,
                        const fs::path& folder) {
  const Workplace place(folder);
  const std::string input = place / "config.json", output = place / "graph.json",
                    log = place / "log";
  write_file(input, config.text);
  const dryrun::Run run =
      dryrun::run({command_of(asked, python, input, output), asked.gpu, 1, 0, true, log});
  refuse_interrupted();
  const std::string unanswered = run.unanswered();
  auto text = run.exit_code == 0 ? read_file(output) : std::nullopt;
  if (text && unanswered.empty()) return *std::move(text);
  const std::string refusal = "ac-advisor: " + input + ": ";  // by configuration.py, in our words
  const std::string told = read_file(log).value_or(""), last = last_line(told);
  if (last.starts_with(refusal)) throw UserError(last.substr(refusal.size()));
  const std::string why = unanswered.empty() ? exception_of(told)
                                             : "it called " + unanswered +
                                                   ", which the emulated device does not answer";
  std::error_code none;
  throw UserError(fmt::format(
      "its capture failed ({}): {}{}", run.ended, why,
      fs::is_regular_file(config.origin, none)  // else there is no file that Python could read
          ? fmt::format("; all that it says: ac-advisor import --gpu {} -- {}", asked.gpu,
                        fmt::join(command_of(asked, python, config.origin, "my.graph.json"), " "))
          : ""));
}

/// What stands beside a graph of the cache.
struct Made {
  double seconds = 0;
  Python python;
};

model::ModelSpec spec_of(const std::string& graph, const std::string& origin,
                         const model::FoundConfig& config, const Made& made, const Asked& asked) {
  graph::Graph read = graph::read_graph(graph, origin);
  read.captured = fmt::format(
      "the step is the one that transformers {} and PyTorch {} ran of this configuration on an "
      "emulated {} at {} x {} in {}{}, captured in {:.1f} s (docs/graphs.md)",
      made.python.transformers, made.python.torch, asked.gpu, asked.batch, asked.seq,
      precision_of(asked), read.given.empty() ? "" : " of " + read.given, made.seconds);
  read.name = config.name;
  model::ModelSpec spec = model::of_graph(std::make_shared<const graph::Graph>(std::move(read)));
  model::read_published(config, spec);
  return spec;
}

/// From the cache; nothing where it has none that can be read.
std::optional<model::ModelSpec> kept(const fs::path& file, const model::FoundConfig& config,
                                     Made made, const Asked& asked) {
  const auto graph = read_file(file), about = read_file(file.string() + ".made");
  if (!graph || !about) return std::nullopt;
  try {
    const Json told = Json::parse(*about);
    made.seconds = told.at("seconds").get<double>();
    return spec_of(*graph, file.string(), config, made, asked);
  } catch (const std::exception&) {
    return std::nullopt;  // not as it was written: it is made again
  }
}

model::ModelSpec captured(const model::FoundConfig& config, const OptionList& options,
                          const Settings& settings) {
  const Asked asked = asked_of(options, config.name);
  const process::EndingSignals noted;  // from the first Python that is asked to the last file
  const Python python = find_python(settings.python);
  refuse_interrupted();
  const fs::path folder = cache_folder() / "graphs";
  const fs::path file = folder / (key_of(config, asked, python) + ".graph.json");
  if (auto spec = kept(file, config, {0, python}, asked)) {
    settings.tell(config.name + " is planned from its capture, " + file.string());
    return *std::move(spec);
  }
  settings.tell(fmt::format("capturing {} at {} x {} with transformers {} and PyTorch {} of {}",
                            config.name, asked.batch, asked.seq, python.transformers, python.torch,
                            python.path));
  const auto begin = std::chrono::steady_clock::now();
  const std::string graph = run_capture(config, asked, python, folder);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const Made made{took.count(), python};
  model::ModelSpec spec = spec_of(graph, file.string(), config, made, asked);
  const Json about{{"config", config.origin},
                   {"batch", asked.batch},
                   {"seq", asked.seq},
                   {"dtype", precision_of(asked)},
                   {"gpu", asked.gpu},
                   {"torch", python.torch},
                   {"transformers", python.transformers},
                   {"python", python.path},
                   {"seconds", made.seconds}};
  write_file(file.string() + ".made", about.dump(2) + "\n");
  write_file(file, graph);
  settings.tell(fmt::format("captured in {:.1f} s, kept as {}", made.seconds, file.string()));
  return spec;
}

}  // namespace

model::ModelSpec load_model(const std::string& model, const std::string& as,
                            const OptionList& options, const Settings& settings) {
  return load_model(model::find_config(model), as, options, settings);
}

model::ModelSpec load_model(const model::FoundConfig& config, const std::string& as,
                            const OptionList& options, const Settings& settings) {
  if (settings.when == When::always && !graph::is_graph(config.text) && as.empty()) {
    try {
      return captured(config, options, settings);
    } catch (const UserError& why) {
      throw UserError(config.origin + ": " + why.what());
    }
  }
  try {
    return model::parse_config(config.text, config.origin, config.name, as);
  } catch (const model::UnknownArchitecture& unknown) {
    if (settings.when == When::never) throw;
    try {
      return captured(config, options, settings);
    } catch (const UserError& why) {
      throw UserError(
          fmt::format("{} has no family here{}; {}", unknown.named, unknown.hint, why.what()));
    }
  }
}

bool needs_capture(const std::string& model, const std::string& as, const Settings& settings) {
  if (settings.when == When::never) return false;
  try {
    const model::FoundConfig config = model::find_config(model);
    if (graph::is_graph(config.text)) return false;
    if (settings.when == When::always) return as.empty();
    static_cast<void>(model::parse_config(config.text, config.origin, config.name, as));
  } catch (const model::UnknownArchitecture&) {
    return true;
  } catch (const UserError&) {
  }
  return false;
}

}  // namespace ac_advisor::capture
