// Options of the program that say nothing of the training step, one row each.
#include <algorithm>

#include "ac_advisor/model/variant_options.hpp"
#include "cli/command_table.hpp"
#include "model/options_parse.hpp"

namespace ac_advisor::cli {
namespace {

using Text = std::string_view;

/// A row whose value is a text, a flag or a number: `M` is a member of Arguments.
template <auto M>
void set_text(Arguments& a, Text, Text text) {
  a.*M = text;
}
template <auto M>
void set_flag(Arguments& a, Text, Text) {
  a.*M = true;
}
template <auto M>
void measure_text(Arguments& a, Text, Text text) {
  a.measure.*M = text;
}
template <auto M>
void measure_flag(Arguments& a, Text, Text) {
  a.measure.*M = true;
}
template <auto M, std::int64_t Least, std::int64_t Most>
void measure_whole(Arguments& a, Text name, Text text) {
  a.measure.*M = options::parse_whole({name, text}, text, {"N", Least, Most});
}

/// A decimal from `least` to `most`.
double decimal(Text name, Text text, double least, double most, const char* example) {
  const double value = options::parse_decimal({name, text}, example);
  if (value < least || value > most)
    options::refuse({name, text}, "must be from " + std::to_string(least) + " to " +
                                      std::to_string(most) + ", such as " + example);
  return value;
}

constexpr std::int64_t many = 1'000'000'000;
constexpr Text formats[] = {"table", "json", "csv", "md", "html"};
constexpr Text check_formats[] = {"table", "json", "md", "junit", "github", "gitlab", "bencher"};
constexpr Text oom_formats[] = {"table", "json"};
constexpr Text collectives[] = {"auto", "local", "emulate", "procs", "nccl"};
constexpr Text targets[] = {"automodel",    "torchtitan", "torchtune", "litgpt",
                            "llamafactory", "verl",       "megatron",  "hf",
                            "hf-trainer",   "trl",        "liger",     "deepspeed"};
constexpr Text device[] = {"cpu"};
constexpr Text sought[] = {"batch", "seq", "completion", "model", "world", "gpu"};

constexpr const char* rendered =
    "plan advise measure compare report explain export trace dryrun diagnose doctor snapshot";
constexpr const char* measuring = "measure advise";
using M = MeasureArguments;

constexpr ProgramOption table[] = {
    {"plan advise compare measure explain export check diagnose snapshot oom", "--as", "FAMILY",
     "read an unknown architecture as this family", "Model and batch", set_text<&Arguments::as>},
    {"plan advise compare explain check", "--capture", "WHEN",
     "never, auto or always: capture a model type without a family (always: any) by a Python that "
     "has transformers",
     "Model and batch",
     [](Arguments& a, Text name, Text text) {
       const auto* const found =
           std::find(std::begin(capture::when_names), std::end(capture::when_names), text);
       if (found == std::end(capture::when_names))
         options::refuse_choice({name, text}, capture::when_names);
       a.capture.when = static_cast<capture::When>(found - std::begin(capture::when_names));
     },
     capture::when_names},
    {"plan advise compare explain check", "--python", "FILE",
     "the Python that captures (AC_ADVISOR_PYTHON, VIRTUAL_ENV's, python3)", "Model and batch",
     [](Arguments& a, Text, Text text) { a.capture.python = text; }},
    {"plan advise compare measure explain export check oom", "--tool", "NAME",
     "MODEL is a training file of this tool: automodel, axolotl, litgpt, llamafactory, megatron, "
     "ms-swift, openrlhf, torchtitan, torchtune, trl or verl (told by its keys)",
     "Training file", set_text<&Arguments::tool>},
    {"plan advise compare measure explain export check oom",
     "--ignore",
     "KEY",
     "leave a key of the training file out that is not planned; may be given again",
     "Training file",
     [](Arguments& a, Text, Text text) { a.ignore.emplace_back(text); },
     {},
     true},
    {"plan advise compare measure explain export check oom", "--model", "MODEL",
     "the model's config.json, folder or built-in name where the training file's name is not here",
     "Training file", set_text<&Arguments::model>},
    {"explain", "--mapping", "", "what each key of the training file becomes, and nothing else",
     "Training file", set_flag<&Arguments::mapping>},
    {"plan advise compare measure explain export check diagnose snapshot oom", global_batch_option,
     "N",
     "sequences per step over all ranks: sets --grad-accum, or --batch where that is given "
     "(batch x grad-accum x world)",
     "Model and batch",
     [](Arguments& a, Text name, Text text) { a.options.emplace_back(name, text); }},
    {"plan", "--strict", "",
     "end with an error (2) where the plan is extrapolated: two of its features were never "
     "compared "
     "together with PyTorch",
     "Model and batch", set_flag<&Arguments::strict>},
    {"plan", "--fail-if-oom", "", "exit with 1 where the step does not fit", "Model and batch",
     set_flag<&Arguments::fail_if_oom>},
    {"advise", "--vary-global-batch", "",
     "try half and twice the batch, not other micro-batches of the same global batch",
     "Model and batch", set_flag<&Arguments::vary_global_batch>},
    {"advise", "--measure", "", "run every configuration too, on this machine", "Measuring",
     set_flag<&Arguments::measured>},
    {"advise", "--shard-of", "I/N",
     "with --measure: run every N-th configuration from I on (0 to N - 1), as one job of N; report "
     "puts their --format json together",
     "Measuring",
     [](Arguments& a, Text name, Text text) {
       const std::size_t slash = text.find('/');
       if (slash == Text::npos)
         options::refuse({name, text}, "must be a part and the number of parts, such as 0/8");
       a.measure.parts = options::parse_whole({name, text}, text.substr(slash + 1), {"N", 1, 4096});
       a.measure.part =
           options::parse_whole({name, text}, text.substr(0, slash), {"I", 0, a.measure.parts - 1});
     }},
    {"advise", "--solve", "WHAT",
     "batch, seq, completion (grpo, rloo): the most that fits on --gpu; model: the largest sample "
     "(no MODEL needed); world, gpu: the fewest GPUs, the smallest",
     "Adapters",
     [](Arguments& a, Text name, Text text) {
       if (std::find(std::begin(sought), std::end(sought), text) == std::end(sought))
         options::refuse_choice({name, text}, sought);
       a.solve = text;
     },
     sought},
    {measuring, "--collectives", "KIND",
     "auto (threads), local, emulate (rank 0 alone), procs (one process per rank) or nccl (one per "
     "GPU)",
     "Measuring",
     [](Arguments& a, Text name, Text text) {
       for (const Text word : collectives)
         if (word == text) return void(a.measure.collectives = text);
       options::refuse_choice({name, text}, collectives);
     },
     collectives},
    {measuring, "--procs", "N", "--world N --collectives procs", "Measuring",
     measure_whole<&M::procs, 2, 4096>},
    {measuring, "--steps", "N", "steps to run (3; 10 on a GPU)", "Measuring",
     measure_whole<&M::steps, 1, many>},
    {measuring, "--seed", "N", "of the weights, the data and dropout (0)", "Measuring",
     [](Arguments& a, Text name, Text text) {
       a.measure.seed = static_cast<std::uint64_t>(
           options::parse_whole({name, text}, text, {"N", 0, std::int64_t{1} << 62}));
     }},
    {measuring, "--data", "FILE", "a text file; its bytes are the tokens (seventeen sonnets)",
     "Measuring", measure_text<&M::data>},
    {measuring, "--weights", "PATH",
     "a model.safetensors in Hugging Face's layout, the index of its shards, or the folder of "
     "either",
     "Measuring", measure_text<&M::weights>},
    {measuring, "--checkpoint", "FOLDER", "write here when interrupted or done", "Measuring",
     measure_text<&M::checkpoint>},
    {measuring, "--resume", "", "go on from --checkpoint", "Measuring", measure_flag<&M::resume>},
    {measuring, "--lr", "RATE", "learning rate (0.001)", "Measuring",
     [](Arguments& a, Text name, Text text) {
       a.measure.learning_rate = decimal(name, text, 0, 1000, "0.001");
     }},
    {measuring, "--warmup", "N", "steps of linear warm-up (0)", "Measuring",
     measure_whole<&M::warmup, 0, many>},
    {measuring, "--memory-limit", "SIZE", "out of memory beyond this, per rank (none)", "Measuring",
     measure_text<&M::memory_limit>},
    {measuring, "--timeout", "S", "seconds that ranks wait for each other (60)", "Measuring",
     [](Arguments& a, Text name, Text text) {
       a.measure.timeout = decimal(name, text, 0.1, 86400, "60");
     }},
    {measuring, "--trace", "",
     "on a GPU: run again under CUPTI's activity records (launches, gaps)", "Measuring",
     measure_flag<&M::trace>},
    {measuring, "--counters", "",
     "on a GPU: run again with hardware counters (bytes of device memory)", "Measuring",
     measure_flag<&M::counters>},
    {measuring, "--emulated", "",
     "the step of --gpu on an emulated device, without a GPU: memory and launches", "Measuring",
     measure_flag<&M::emulated>},
    {measuring, "--no-parity", "", "do not compare the gradients with a reference step",
     "Measuring", measure_flag<&M::no_parity>},
    {measuring, "--log-steps", "", "one line per step on stderr: loss, memory, time", "Measuring",
     measure_flag<&M::log_steps>},
    {"explain", "--trace", "", "SAVE, RECOMPUTE or ALTERNATE for each unique op", "Explaining",
     set_flag<&Arguments::trace>},
    {"explain", "--schedule", "", "the schedule, op by op", "Explaining",
     set_flag<&Arguments::schedule>},
    {"explain", "--program", "", "the step as text to read and to diff", "Explaining",
     set_flag<&Arguments::program>},
    {"explain", "--passes", "", "the passes, and what each changed", "Explaining",
     set_flag<&Arguments::passes>},
    {"export", "--to", "TARGET",
     "automodel, torchtitan, torchtune, litgpt, llamafactory, verl, megatron, hf (also of "
     "hf-trainer, trl and liger: "
     "--to trl is --framework trl --to hf) or deepspeed",
     "Output", set_text<&Arguments::target>, targets},
    {"check", "--config", "FILE", "the gate's file (ac-advisor.json)", "The gate",
     set_text<&Arguments::config>},
    {"check",
     "--only",
     "CASE",
     "this case alone; may be given again",
     "The gate",
     [](Arguments& a, Text, Text text) { a.only.emplace_back(text); },
     {},
     true},
    {"check", "--init", "", "write a first file, of MODEL and the options of a step", "The gate",
     set_flag<&Arguments::init>},
    {"check", "--update", "", "write the baselines anew", "The gate", set_flag<&Arguments::update>},
    {"check", "--tighten", "", "suggest new baselines where less is needed now", "The gate",
     set_flag<&Arguments::tighten>},
    {"check", "--today", "YYYY-MM-DD", "the day that waivers are judged on (today)", "The gate",
     set_text<&Arguments::today>},
    {"diagnose",
     "--plan",
     "FILE",
     "what `plan --format json` wrote for B's step, to compare with (its recomputed bytes stand in "
     "for DRAM counters); twice: for A's, then for B's",
     "Traces",
     [](Arguments& a, Text, Text text) { a.plans.emplace_back(text); },
     {},
     true},
    {"diagnose", "--model", "MODEL",
     "or plan B's step here, of this MODEL with the options of a step, and A's with --ac none",
     "Traces", set_text<&Arguments::model>},
    {"snapshot", "--device", "N", "of several (the one with the highest peak)", "Snapshots",
     [](Arguments& a, Text name, Text text) {
       a.device = options::parse_whole({name, text}, text, {"N", 0, 1023});
     }},
    {"snapshot", "--against", "PLAN", "what `plan --format json` wrote, laid beside", "Snapshots",
     set_text<&Arguments::against>},
    {"snapshot", "--model", "MODEL", "plan this model with the step's options, and lay it beside",
     "Snapshots", set_text<&Arguments::model>},
    {"dryrun import", "--gpu", "NAME",
     "the device that is emulated (h100-80gb; see ac-advisor devices)", "Device",
     [](Arguments& a, Text, Text text) { a.dryrun.gpu = text; }},
    {"dryrun", "--world", "N",
     "one process stands for one of N ranks, whose collectives are answered (1)", "Device",
     [](Arguments& a, Text name, Text text) {
       a.dryrun.world = options::parse_whole({name, text}, text, {"N", 1, 1'000'000});
     }},
    {"dryrun", "--rank", "R", "which of them (0)", "Device",
     [](Arguments& a, Text name, Text text) {
       a.dryrun.rank = options::parse_whole({name, text}, text, {"R", 0, 999'999});
     }},
    {"calibrate", "--gpu", "NAME", "the device that is measured (cpu)", "Device",
     [](Arguments& a, Text name, Text text) { a.options.emplace_back(name, text); }, device},
    {"calibrate", "--threads", "N", "CPU threads (1)", "Device",
     [](Arguments& a, Text name, Text text) { a.options.emplace_back(name, text); }},
    {"calibrate", "--quick", "", "fewer sizes: half a minute instead of three", "Device",
     set_flag<&Arguments::quick>},
    {"serve", "--open", "", "and open it in the browser", "Serving", set_flag<&Arguments::open>},
    {"serve", "--port", "N", "of the loopback address (any that is free)", "Serving",
     [](Arguments& a, Text name, Text text) {
       a.port =
           static_cast<std::uint16_t>(options::parse_whole({name, text}, text, {"N", 0, 65535}));
     }},
    {"serve", "--page", "FILE", "another page than the program's own", "Serving",
     set_text<&Arguments::page>},
    {"advise compare snapshot", "--rows", "N", "rows shown (15)", "Output",
     [](Arguments& a, Text name, Text text) {
       a.rows =
           static_cast<std::size_t>(options::parse_whole({name, text}, text, {"N", 1, 1'000'000}));
     }},
    {rendered, "--format", "FORMAT",
     "table, json, csv, md or html (table; of report: html); of plan also snapshot, for PyTorch's "
     "memory_viz",
     "Output", set_text<&Arguments::format>, formats},
    {"oom", "--format", "FORMAT", "table or json (table)", "Output", set_text<&Arguments::format>,
     oom_formats},
    {"oom", "--output", "FILE", "write to FILE instead of stdout (-)", "Output",
     set_text<&Arguments::output>},
    {"check", "--format", "FORMAT",
     "table, json, md, junit, github, gitlab or bencher (Bencher Metric Format) (table)", "Output",
     set_text<&Arguments::format>, check_formats},
    {rendered, "--output", "FILE", "write to FILE instead of stdout (-)", "Output",
     set_text<&Arguments::output>},
    {"check", "--output", "FILE", "write to FILE; the table then goes to stderr", "Output",
     set_text<&Arguments::output>},
    {"calibrate", "--output", "FILE", "the device file (named after the device)", "Output",
     set_text<&Arguments::output>},
    {"generate", "--output", "FILE", "write to FILE instead of stdout", "Output",
     set_text<&Arguments::output>},
};

}  // namespace

std::span<const ProgramOption> program_options() { return table; }

}  // namespace ac_advisor::cli
