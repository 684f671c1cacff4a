#include "cli/command_table.hpp"

#include <algorithm>

#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/version.hpp"
#include "cli/output.hpp"
#include "model/options_preset.hpp"

namespace ac_advisor::cli {
namespace {

constexpr Operands model_operand = {
    1, "MODEL",
    "a config.json (- for standard input), a folder that has one, a built-in name (see ac-advisor "
    "models), or org/name in Hugging Face's local cache",
    "MODEL: a config.json, a folder that has one, a built-in name (see ac-advisor models), or "
    "org/name in Hugging Face's local cache",
    "one MODEL"};
constexpr Operands no_operands = {};

/// A command whose result is text alone.
template <auto Run>
Result text_of(const Arguments& a) {
  return {Run(a)};
}

constexpr CommandRow table[] = {
    {"plan", "one configuration: its predicted profile",
     "ac-advisor plan llama-3.2-1b --batch 8 --seq 2048 --ac full", model_operand, true, false,
     run_plan},
    {"advise", "sweep, rank, savings table, recommendation",
     "ac-advisor advise llama-3.2-1b --batch 8 --seq 2048 --world 8", model_operand, true, false,
     [](const Arguments& a) {
       return a.measured && a.solve.empty() ? run_measured_sweep(a) : Result{run_advise(a)};
     }},
    {"measure", "the step run for real on this machine, beside its prediction",
     "ac-advisor measure tiny-llama --batch 2 --seq 64 --ac full", model_operand, true, false,
     run_measure, true},
    {"compare",
     "two settings, or two saved profiles: what differs, by category and module",
     "ac-advisor compare llama-3.2-1b --batch 8 -- --ac full",
     {2, "FILES",
      "two that plan or advise --format json wrote; or a MODEL and options, then -- and the other "
      "setting's options, over the first's",
      "two files that plan or advise --format json wrote, or a MODEL: ac-advisor compare MODEL "
      "OPTIONS -- OPTIONS",
      "two files, or one MODEL", false, false, true},
     true,
     false,
     text_of<run_compare>},
    {"report",
     "saved results as one HTML page, Markdown or CSV",
     "ac-advisor report a.json b.json --output report.html",
     {any_number, "FILES",
      "what plan, measure, advise, compare, trace FILE or diagnose --format json wrote, or traces",
      "FILE: what plan, measure, advise, compare or diagnose --format json wrote, or a trace", ""},
     false,
     false,
     text_of<run_report>},
    {"explain", "where the peak comes from, why a mode costs what it costs",
     "ac-advisor explain llama-3.2-1b --batch 8 --seq 2048 --ac full --trace", model_operand, true,
     false, text_of<run_explain>},
    {"export", "write the framework's config",
     "ac-advisor export llama-3.2-1b --to torchtitan --framework torchtitan --world 8",
     model_operand, true, false, text_of<run_export>},
    {"check",
     "the gate for CI: memory budgets and baselines; exits 1 if a limit is exceeded",
     "ac-advisor check --format junit --output gate.xml",
     {1, "MODEL", "with --init, and options of a step: what the first case is of", "",
      "one MODEL, with --init"},
     true,
     false,
     run_check},
    {"trace",
     "what a trace tells; or, with -- CMD, run any CUDA program and record its kernels",
     "ac-advisor trace --output none.json -- python train.py",
     {any_number, "FILES",
      "a trace (as diagnose takes), packed by gzip or zstd or not, - for standard input; a folder, "
      "or several files: one of each rank. Or, after --, a program and its arguments",
      "a command after --: ac-advisor trace -- python train.py; or a trace that was recorded: "
      "ac-advisor trace FILE",
      "", true, true},
     false,
     true,
     [](const Arguments& a) {
       if (a.runs_program)
         run_trace(a);
       else
         write_output(run_read_trace(a), a.output);
       return Result{};
     },
     true},
    {"dryrun",
     "run any CUDA program on an emulated device, without a GPU: its memory and launches",
     "ac-advisor dryrun --gpu h100-80gb -- python train.py",
     {any_number, "CMD", "after --, a program and its arguments",
      "a command after --: ac-advisor dryrun -- python train.py", "", true},
     false,
     true,
     run_dryrun,
     true},
    {"import",
     "capture the step of any PyTorch model as a graph, which every command takes for MODEL",
     "ac-advisor import -- python -m ac_advisor.capture my_model:make_model --output my.graph.json",
     {any_number, "CMD",
      "after --, python -m ac_advisor.capture and its arguments (docs/graphs.md)",
      "a command after --: ac-advisor import -- python -m ac_advisor.capture my_model:make_model",
      "", true},
     false,
     true,
     run_import,
     true},
    {"diagnose",
     "compare traces without and with checkpointing: what it costs, and why",
     "ac-advisor diagnose none.json full.json",
     {2, "FILES",
      "two traces, without and with checkpointing: of ac-advisor trace, of torch.profiler "
      "(export_chrome_trace) or of nsys export --type sqlite",
      "two traces: A without checkpointing, B with it", "two files"},
     true,
     false,
     text_of<run_diagnose>},
    {"snapshot",
     "a memory snapshot of PyTorch: its peak, what was live, fragmentation",
     "ac-advisor snapshot s.pickle --format html --output s.html",
     {2, "FILES",
      "what torch.cuda.memory._dump_snapshot wrote (also .gz); two: what grew from A to B",
      "FILE: what torch.cuda.memory._dump_snapshot wrote", "one snapshot, or two", false, false,
      true},
     true,
     false,
     text_of<run_snapshot>},
    {"oom",
     "an out-of-memory error's text: the tensor, what it lacked, what makes it fit",
     "ac-advisor oom train.log llama-3.1-8b --batch 1 --seq 8192",
     {2, "FILE",
      "a log, or as much of it as was pasted (- for standard input); then, if wanted, MODEL: what "
      "was trained, with the options of its step",
      "FILE: a log with the error's text, or -", "a file and a MODEL", false, false, true},
     true,
     false,
     text_of<run_oom>},
    {"doctor", "what this machine can measure, and how to enable what it cannot",
     "ac-advisor doctor", no_operands, false, false, text_of<run_doctor>},
    {"calibrate", "measure this machine's ops and write a device file for --gpu",
     "ac-advisor calibrate --quick --output here.json", no_operands, false, true, run_calibrate,
     true},
    {"models",
     "list built-in models: samples, and ids of Hugging Face's Hub",
     "ac-advisor models qwen3",
     {1, "WORD", "those whose names have it, each on a line of its own with its parameters", "",
      "one WORD"},
     false,
     false,
     text_of<run_models>},
    {"frameworks", "list the training loops that --framework knows, and what each assumes",
     "ac-advisor frameworks", no_operands, false, false,
     [](const Arguments&) { return Result{run_frameworks()}; }},
    {"devices", "list supported GPUs", "ac-advisor devices", no_operands, false, false,
     [](const Arguments&) { return Result{run_devices()}; }},
    {"serve", "the planner as a page in the browser, for this machine alone",
     "ac-advisor serve --open", no_operands, false, false, text_of<run_serve>, true},
    {"generate",
     "shell completion, the man page, docs/options.md, the options' JSON schema, the planner's "
     "page",
     "ac-advisor generate bash --output ac-advisor.bash",
     {1, "WHAT", "bash, zsh, fish, man, reference, schema or page",
      "WHAT: bash, zsh, fish, man, reference, schema or page",
      "one of bash, zsh, fish, man, reference, schema and page"},
     false,
     false,
     text_of<run_generate>},
    {"help",
     "show help, for all or for one command",
     "ac-advisor help plan",
     {1, "COMMAND", "a command's name", "", "one command"},
     false,
     false,
     [](const Arguments& a) { return Result{a.help}; }},
    {"version", "the program's version", "ac-advisor version", no_operands, false, false,
     [](const Arguments&) { return Result{"ac-advisor " + std::string(version) + "\n"}; }},
};

}  // namespace

std::span<const CommandRow> command_table() { return table; }

const CommandRow* find_command(std::string_view name) {
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const CommandRow& row) { return row.name == name; });
  return found == std::end(table) ? nullptr : found;
}

bool ProgramOption::is_of(std::string_view command) const {
  for (std::string_view rest = commands; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    if (one == command) return true;
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return false;
}

std::vector<ShownOption> shown_options(const CommandRow& command) {
  std::vector<ShownOption> shown;
  const auto step_option = [&](const OptionRow& row) {
    static const std::vector<std::string_view> frameworks = options::framework_names();
    shown.push_back({row.name, row.metavar, row.help, title_of(row.group),
                     row.name == "--framework" ? std::span(frameworks) : row.words, row.off});
  };
  // What the answer is for comes first: the GPU.
  using enum OptionGroup;
  constexpr OptionGroup shown_groups[] = {device,   model,       task,     memory,
                                          adapters, parallelism, precision};
  static_assert(std::size(shown_groups) == option_group_count - 1);  // all but internal
  if (command.step)
    for (const OptionGroup group : shown_groups)
      for (const OptionRow& row : option_table())
        if (row.on_command_line() && row.group == group) step_option(row);
  std::vector<std::string_view> groups;
  for (const ProgramOption& option : program_options())
    if (option.is_of(command.name) &&
        std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  for (const std::string_view group : groups)
    for (const ProgramOption& option : program_options())
      if (option.is_of(command.name) && option.group == group)
        shown.push_back({option.name, option.metavar, option.help, option.group, option.words, {}});
  // A step's group may have options of the program's too: they stand together.
  std::vector<std::string_view> order;
  for (const ShownOption& option : shown)
    if (std::find(order.begin(), order.end(), option.group) == order.end())
      order.push_back(option.group);
  std::stable_sort(shown.begin(), shown.end(), [&](const auto& a, const auto& b) {
    return std::find(order.begin(), order.end(), a.group) <
           std::find(order.begin(), order.end(), b.group);
  });
  return shown;
}

std::vector<ShownOption> own_options(const CommandRow& command) {
  const std::vector<ShownOption> step = shown_options(*find_command("plan"));
  std::vector<ShownOption> own = shown_options(command);
  std::erase_if(own, [&](const ShownOption& option) {
    return std::any_of(step.begin(), step.end(), [&](const ShownOption& of_plan) {
      return of_plan.name == option.name && of_plan.help == option.help;
    });
  });
  return own;
}

}  // namespace ac_advisor::cli
