// The only file that includes CLI11, which is slow to compile.
#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "ac_advisor/model/error.hpp"
#include "model/nearest.hpp"

namespace ac_advisor::cli {
namespace {

struct StepOption {
  const char* name;
  const char* value;  ///< null: a flag
  const char* text;
};

// The order and the words of --help; defaults first.
constexpr StepOption step_options[] = {
    {"--framework", "NAME",
     "hf, liger, automodel, torchtitan, megatron or deepspeed: a preset of the options below; "
     "options by hand win"},
    {"--batch", "N", "sequences per rank and micro-batch"},
    {"--seq", "N", "tokens per sequence"},
    {"--grad-accum", "N", "micro-batches a step (1)"},
    {"--gpu", "NAME",
     "h100-80gb, h200, a100-80gb, …, cpu (exact bytes), or a device file that calibrate wrote"},
    {"--world", "N", "data-parallel ranks (1)"},
    {"--threads", "N", "CPU threads a rank, with --gpu cpu (1)"},
    {"--shard", "MODE", "none, ddp, zero1, zero2, fsdp2 or hsdp:N"},
    {"--fsdp-unit", "UNIT", "block or segment: what one fully_shard wraps"},
    {"--keep-last-block", nullptr, "fsdp2: the last block is not resharded after forward"},
    {"--no-sync", nullptr, "gradients are reduced after the last micro-batch only"},
    {"--ac", "MODE", "none, full, selective, attention, grouped:K, every:K, sqrt or budget:SIZE"},
    {"--ac-scope", "SCOPE", "block or submodule (with full and every:K)"},
    {"--loss", "LOSS", "ce, lc-ce or chunked:TOKENS"},
    {"--hold-output", nullptr, "the loop keeps the model's output through backward"},
    {"--no-hold-output", nullptr, "it drops the output with the loss computed"},
    {"--kernels", "KIND", "eager or fused"},
    {"--optimizer", "NAME", "adamw (fused), adamw-foreach or sgd"},
    {"--attn", "BACKEND", "auto, flash, cudnn, efficient, math or eager"},
    {"--cuda-graph", "WHAT", "off, step or segments: captured and replayed by the trainer"},
    {"--param-dtype", "TYPE", "bf16 or fp32"},
    {"--compute-dtype", "TYPE", "bf16 or fp32"},
    {"--reduce-dtype", "TYPE", "bf16 or fp32"},
    {"--dropout", "P", "attention dropout (the model's)"},
    {"--capacity-factor", "F", "experts' load over the balanced one (1)"},
    {"--alloc-conf", "CONF", "expandable_segments:True or :False"},
    {"--force", nullptr, "plan a combination that a framework refuses"},
};
// Known to option resolution, which refuses them by name with the reason.
constexpr const char* refused_options[] = {
    "--tp", "--pp", "--cp", "--ep", "--lora", "--offload", "--fp8", "--packing", "--clip-grad"};
constexpr const char* refused_flags[] = {"--autocast"};

struct Command {
  const char* name;
  const char* text;
};
constexpr Command commands[] = {
    {"plan", "one configuration: its predicted profile"},
    {"advise", "sweep, rank, savings table, recommendation"},
    {"measure", "the step run for real on this machine, beside its prediction"},
    {"compare", "two saved profiles: what differs, by category and module"},
    {"report", "saved results as one HTML page, Markdown or CSV"},
    {"explain", "where the peak comes from, why a mode costs what it costs"},
    {"export", "the setting in a framework's own words"},
    {"check", "the gate for CI: budgets and baselines of memory, 1 where a limit is exceeded"},
    {"trace",
     "what a trace tells: trace FILE…; or record one of any CUDA program: trace [--output FILE] -- "
     "CMD…"},
    {"diagnose", "two traces, without and with checkpointing: what it costs, and why"},
    {"doctor", "what this machine can measure, and how to enable what it cannot"},
    {"calibrate", "measure this machine's ops and write a device file for --gpu"},
    {"models", "the sample models that are built in"},
    {"devices", "the devices that are known"},
};
constexpr std::size_t any_number = 1000000;  ///< but at least one

/// What a command takes beside options.
struct Operands {
  const char* command;
  std::size_t count;
  const char* metavar;
  const char* text;   ///< of --help
  const char* lacks;  ///< "plan needs …"
  const char* words;  ///< "plan takes …"
};
constexpr Operands model_operand = {
    "",
    1,
    "MODEL",
    "a config.json, a folder that has one, or the name of a sample",
    "MODEL: a config.json, a folder that has one, or the name of a sample (see ac-advisor models)",
    "one MODEL"};
constexpr Operands operands[] = {
    {"compare", 2, "FILES", "two profiles that `plan --format json` wrote",
     "two files that plan or advise --format json wrote", "two files"},
    {"diagnose", 2, "FILES",
     "two traces, without and with checkpointing: of ac-advisor trace, of torch.profiler "
     "(export_chrome_trace) or of nsys export --type sqlite",
     "two traces: A without checkpointing, B with it", "two files"},
    {"report", any_number, "FILES",
     "what plan, measure, advise, compare, trace FILE or diagnose --format json wrote, or traces",
     "FILE: what plan, measure, advise, compare or diagnose --format json wrote, or a trace", ""},
    {"check", 0, nullptr, nullptr, nullptr, "no arguments"},
    {"doctor", 0, nullptr, nullptr, nullptr, "no arguments"},
    {"calibrate", 0, nullptr, nullptr, nullptr, "no arguments"},
    {"models", 0, nullptr, nullptr, nullptr, "no arguments"},
    {"devices", 0, nullptr, nullptr, nullptr, "no arguments"},
    {"trace", any_number, "FILES",
     "a trace (as diagnose takes), packed by gzip or zstd or not, - for the standard input; a "
     "folder, or several files: one of each rank",
     "a trace, a folder of traces, or a command after --: ac-advisor trace -- python train.py", ""},
};

const Operands& operands_of(const std::string& command) {
  for (const Operands& o : operands)
    if (command == o.command) return o;
  return model_operand;
}

template <typename List>
std::string suggestion(std::string_view word, const List& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string_view near = model::nearest(word, names);
  return near.empty() ? "" : "; did you mean " + std::string(near) + "?";
}

void add_step_option(CLI::App& app, Arguments& arguments, const StepOption& option) {
  const std::string name = option.name;
  if (option.value == nullptr)
    app.add_flag_callback(
        name, [&arguments, name] { arguments.options.emplace_back(name, ""); }, option.text);
  else
    app.add_option_function<std::string>(
           name,
           [&arguments, name](const std::string& v) { arguments.options.emplace_back(name, v); },
           option.text)
        ->option_text(option.value)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_step_options(CLI::App& app, Arguments& arguments) {
  for (const StepOption& option : step_options) add_step_option(app, arguments, option);
  for (const char* name : refused_options)
    app.add_option_function<std::string>(
           name, [&arguments, name = std::string(name)](
                     const std::string& v) { arguments.options.emplace_back(name, v); })
        ->group("");
  for (const char* name : refused_flags)
    app.add_flag_callback(
           name,
           [&arguments, name = std::string(name)] { arguments.options.emplace_back(name, ""); })
        ->group("");
  app.add_option("--as", arguments.as, "read an unknown architecture as this family")
      ->option_text("FAMILY");
}

void add_output_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--format", arguments.format, "table, json, csv, md or html")
      ->option_text("FORMAT");
  app.add_option("--output", arguments.output, "write to FILE instead of stdout")
      ->option_text("FILE");
}

void add_measure_options(CLI::App& app, MeasureArguments& m) {
  app.add_option("--collectives", m.collectives,
                 "auto (threads), local, emulate (rank 0 alone), procs (a process a rank) or nccl "
                 "(a process a GPU)")
      ->option_text("KIND")
      ->check(CLI::IsMember({"auto", "local", "emulate", "procs", "nccl"}).description(""));
  app.add_option("--procs", m.procs, "--world N --collectives procs")
      ->option_text("N")
      ->check(CLI::Range(2, 4096).description(""));
  app.add_option("--steps", m.steps, "steps to run (3; 10 on a GPU)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000000000).description(""));
  app.add_option("--seed", m.seed, "of the weights, the data and dropout (0)")->option_text("N");
  app.add_option("--data", m.data, "a text file; its bytes are the tokens (seventeen sonnets)")
      ->option_text("FILE");
  app.add_option("--weights", m.weights, "a model.safetensors in Hugging Face's layout")
      ->option_text("FILE");
  app.add_option("--checkpoint", m.checkpoint, "write here when interrupted or done")
      ->option_text("FOLDER");
  app.add_flag("--resume", m.resume, "go on from --checkpoint");
  app.add_option("--lr", m.learning_rate, "learning rate (0.001)")
      ->option_text("RATE")
      ->check(CLI::Range(0.0, 1000.0).description(""));
  app.add_option("--warmup", m.warmup, "steps of linear warm-up (0)")
      ->option_text("N")
      ->check(CLI::Range(0, 1000000000).description(""));
  app.add_option("--memory-limit", m.memory_limit, "out of memory beyond this, a rank")
      ->option_text("SIZE");
  app.add_option("--timeout", m.timeout, "seconds that ranks wait for each other (60)")
      ->option_text("S")
      ->check(CLI::Range(0.1, 86400.0).description(""));
  app.add_flag("--trace", m.trace,
               "on a GPU: run again under CUPTI's activity records (launches, gaps)");
  app.add_flag("--counters", m.counters,
               "on a GPU: run again with hardware counters (bytes of device memory)");
  app.add_flag("--no-parity", m.no_parity, "do not compare the gradients with a reference step");
  app.add_flag("--log-steps", m.log_steps, "a line a step to stderr: loss, memory, time");
}

void add_check_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--config", arguments.config, "the gate's file (ac-advisor.json)")
      ->option_text("FILE");
  app.add_option("--only", arguments.only, "this case alone; may be given again")
      ->option_text("CASE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--init", arguments.init, "write a first file");
  app.add_flag("--update", arguments.update, "write the baselines anew");
  app.add_flag("--tighten", arguments.tighten, "suggest new baselines where less is needed now");
  app.add_option("--today", arguments.today, "the day that waivers are judged on (today)")
      ->option_text("YYYY-MM-DD");
  app.add_option("--format", arguments.format,
                 "table, json, md, junit, github, gitlab or bencher (Bencher Metric Format)")
      ->option_text("FORMAT");
  app.add_option("--output", arguments.output, "write to FILE; the table then goes to stderr")
      ->option_text("FILE");
}

void add_calibrate_options(CLI::App& app, Arguments& arguments) {
  add_step_option(app, arguments, {"--gpu", "NAME", "the device that is measured (cpu)"});
  add_step_option(app, arguments, {"--threads", "N", "CPU threads (1)"});
  app.add_flag("--quick", arguments.quick, "fewer sizes: half a minute instead of three");
  app.add_option("--output", arguments.output, "the device file (named after the device)")
      ->option_text("FILE");
}

void build(CLI::App& app, Arguments& arguments) {
  for (const Command& command : commands) {
    const std::string name = command.name;
    CLI::App* sub = app.add_subcommand(name, command.text);
    sub->callback([&arguments, sub, name] {
      arguments.command = name;
      if (name == "report" && sub->count("--format") == 0) arguments.format = "html";
    });
    if (name == "models" || name == "devices") continue;
    if (name == "check") {
      add_check_options(*sub, arguments);
      continue;
    }
    if (name == "calibrate") {
      add_calibrate_options(*sub, arguments);
      continue;
    }
    const Operands& o = operands_of(name);
    if (o.metavar != nullptr)
      sub->add_option(o.metavar, arguments.positional, o.text)
          ->expected(-1);  // counted by check_positional, whose words are plainer
    if (&o == &model_operand) add_step_options(*sub, arguments);
    if (name == "measure" || name == "advise") add_measure_options(*sub, arguments.measure);
    if (name == "advise")
      sub->add_flag("--measure", arguments.measured,
                    "run every configuration too, on this machine");
    if (name == "diagnose") {
      sub->add_option(
             "--plan", arguments.plans,
             "what `plan --format json` wrote for B's step, to compare with (its recomputed "
             "bytes stand in for DRAM counters); twice: for A's, then for B's")
          ->option_text("FILE")
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      sub->add_option("--model", arguments.model,
                      "or plan B's step here, of this MODEL with the options below, and A's with "
                      "--ac none")
          ->option_text("MODEL");
      add_step_options(*sub, arguments);
    }
    if (name == "export")
      sub->add_option("--to", arguments.target, "automodel, torchtitan, megatron, hf or deepspeed")
          ->option_text("TARGET");
    if (name == "advise" || name == "compare")
      sub->add_option("--rows", arguments.rows, "rows shown before [N others] (15)")
          ->option_text("N")
          ->check(CLI::Range(1, 1000000).description(""));
    if (name == "explain") {
      sub->add_flag("--trace", arguments.trace, "SAVE, RECOMPUTE or ALTERNATE for each unique op");
      sub->add_flag("--schedule", arguments.schedule, "the schedule, op by op");
    }
    add_output_options(*sub, arguments);
  }
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// "--batch" of "--batch=8"; empty for what is not an option ("-", "-1", a path).
std::string option_of(const std::string& word) {
  const bool digit = word.size() > 1 && word[1] >= '0' && word[1] <= '9';
  if (word.size() < 2 || word[0] != '-' || digit) return "";
  return word.substr(0, word.find('='));
}

/// Before parsing: CLI11 would blame an unknown option's value, or MODEL, instead of the option.
void check_option_names(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> known = option_names(app);
  for (const std::string& word : words) {
    if (word == "--") return;
    const std::string name = option_of(word);
    if (name.empty() || name == "-h" || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const bool top = app.get_parent() == nullptr;
    throw UserError(name + ": unknown option" + suggestion(name, known) + " (see " +
                    (top ? "" : "ac-advisor ") + app.get_name() + " --help)");
  }
}

void check_positional(const Arguments& a) {
  const Operands& o = operands_of(a.command);
  if (a.command == "trace") {
    if (a.positional.empty())
      throw UserError(
          "trace needs a command after --: ac-advisor trace -- python train.py; or a trace that "
          "was "
          "recorded: ac-advisor trace FILE");
    std::error_code none;
    const std::string& first = a.positional.front();
    if (!a.runs_program && first != "-" && !std::filesystem::exists(first, none))
      throw UserError(first +
                      ": No such file or directory; trace takes the program after --: ac-advisor "
                      "trace -- python train.py");
    return;
  }
  if (a.positional.size() < (o.count == any_number ? 1 : o.count))
    throw UserError(a.command + " needs " + o.lacks);
  if (a.positional.size() > o.count)
    throw UserError(a.positional[o.count] + ": one argument too many; " + a.command + " takes " +
                    o.words);
  if (a.command == "export" && a.target.empty())
    throw UserError("export needs --to: automodel, torchtitan, megatron, hf or deepspeed");
}

/// The step's options in the order they were given: CLI11 tells them in the order of their
/// definition, but of --hold-output and --no-hold-output the last one counts.
void restore_order(OptionList& options, const std::vector<std::string>& words) {
  const auto last = [&](const std::string& name) {
    std::ptrdiff_t at = -1;
    for (std::size_t i = 0; i < words.size(); ++i)
      if (option_of(words[i]) == name) at = static_cast<std::ptrdiff_t>(i);
    return at;
  };
  std::stable_sort(options.begin(), options.end(),
                   [&](const auto& a, const auto& b) { return last(a.first) < last(b.first); });
}

}  // namespace

Arguments parse_arguments(int argc, const char* const* argv) {
  Arguments arguments;
  CLI::App app("Plans the memory and time of a training step.", "ac-advisor");
  app.require_subcommand(0, 1);
  app.footer("Example: ac-advisor plan llama-3.2-1b --batch 8 --seq 2048 --ac full");
  app.set_version_flag("--version", "");
  if (argc > 1) {
    const std::string first = argv[1];
    if (first == "--version" || first == "version") {
      arguments.command = "version";
      return arguments;
    }
    if (first == "help") argc = 1;
    std::vector<std::string> names;
    for (const Command& command : commands) names.emplace_back(command.name);
    const bool known = std::find(names.begin(), names.end(), first) != names.end();
    if (!first.starts_with("-") && first != "help" && !known)
      throw UserError("\"" + first + "\": unknown command" + suggestion(first, names) +
                      " (see ac-advisor --help)");
  }
  build(app, arguments);
  if (argc > 1 && std::string_view(argv[1]) == "trace") {
    // What follows -- is another program's.
    const auto* const end = argv + argc;
    const auto* const mark = std::find(argv + 2, end, std::string_view("--"));
    if (mark != end) {
      arguments.positional.assign(mark + 1, end);
      arguments.runs_program = true;
    }
    argc = static_cast<int>(mark - argv);
  }
  const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  const auto named = app.get_subcommands(
      [&](const CLI::App* sub) { return argc > 1 && sub->get_name() == argv[1]; });
  if (!named.empty())
    check_option_names(*named.front(), words);
  else if (argc > 1)
    check_option_names(app, {argv[1]});
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    arguments.command = "help";
    arguments.help = app.help();
    return arguments;
  } catch (const CLI::ExtrasError& error) {
    if (std::string_view(argv[1]) == "trace")
      throw UserError("trace takes the program after --: ac-advisor trace -- python train.py");
    throw UserError(error.what());
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();
    throw UserError(what.substr(0, what.find(':')) + " needs one value; see --help");
  } catch (const CLI::ParseError& error) {
    throw UserError(error.what());
  }
  if (arguments.command.empty()) {
    arguments.command = "help";
    arguments.help = app.help();
    return arguments;
  }
  check_positional(arguments);
  restore_order(arguments.options, words);
  return arguments;
}

}  // namespace ac_advisor::cli
