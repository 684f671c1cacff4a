#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/measured_sweep.hpp"
#include "ac_advisor/reports/measurement.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/trace/step_activity.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "cli/trainer_process.hpp"
#include "reports/command_line.hpp"

namespace ac_advisor::cli {
namespace {

/// What is measured here, runs here: the CPU, as many ranks as --procs or a launcher says, and as
/// many threads as the machine has for each.
OptionList settle(OptionList options, const MeasureArguments& m) {
  if (!given(options, "--gpu")) options.emplace_back("--gpu", "cpu");
  const char* launched = std::getenv("WORLD_SIZE");
  if (m.procs > 0) {
    if (given(options, "--world"))
      throw UserError("--procs " + std::to_string(m.procs) + " and --world: one of them");
    options.emplace_back("--world", std::to_string(m.procs));
  } else if (launched != nullptr && !given(options, "--world")) {
    options.emplace_back("--world", launched);
  }
  return options;
}

/// What the emulated device has, and what needs numbers or another process.
void check_emulated(const MeasureArguments& m, const StepConfig& config) {
  if (!m.emulated) return;
  const std::string gpu = "--emulated with --gpu " + config.device.gpu;
  if (!simulate::find_device(config.device.gpu).cuda)
    throw UserError(gpu + ": it is a GPU that is emulated; name one (`ac-advisor devices`)");
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw UserError(std::string("--emulated ") + option + ": " + why + "; leave it out");
  };
  refuse(m.trace, "--trace",
         "the emulated device has no activity records; it counts launches itself");
  refuse(m.counters, "--counters", "an emulated device moves no bytes");
  refuse(m.procs > 0 || std::getenv("WORLD_SIZE") != nullptr, m.procs > 0 ? "--procs" : "torchrun",
         "one process stands for one of --world ranks");
  refuse(m.resume || !m.checkpoint.empty(), m.resume ? "--resume" : "--checkpoint",
         "its values mean nothing");
  refuse(!m.weights.empty(), "--weights", "values are not set there");
}

/// A launcher's name where it has started more ranks than this one.
const char* launcher() {
  constexpr const char* sizes[][2] = {
      {"WORLD_SIZE", "torchrun"}, {"OMPI_COMM_WORLD_SIZE", "mpirun"}, {"SLURM_NTASKS", "srun"}};
  for (const auto& [variable, name] : sizes)
    if (const char* ranks = std::getenv(variable); ranks != nullptr && std::atoll(ranks) > 1)
      return name;
  return nullptr;
}

/// An instrument is a second run, which rank 0 alone would start; and of ranks that are forked,
/// injected activity records know nothing.
void check_instruments(const MeasureArguments& m) {
  if (!m.trace && !m.counters) return;
  const char* option = m.trace ? "--trace" : "--counters";
  constexpr const char* instead =
      "; look at one rank: --world N --collectives emulate, without a launcher";
  if (const char* name = launcher(); name != nullptr)
    throw UserError(std::string(option) + " under " + name +
                    ": an instrument is a run of its own, and its ranks would not start together" +
                    instead);
  if (m.trace && (m.procs > 0 || m.collectives == "procs" || m.collectives == "nccl"))
    throw UserError(std::string("--trace with ") +
                    (m.procs > 0 ? "--procs" : "--collectives " + m.collectives) +
                    ": ranks are forked, and activity records are of one process" + instead);
}

constexpr std::int64_t cpu_steps = 3, gpu_steps = 10, emulated_steps = 3;

profile::RunSpec run_spec(const Arguments& a, bool gpu) {
  const MeasureArguments& m = a.measure;
  profile::RunSpec spec;
  spec.model = a.positional.at(0);
  spec.as = a.as;
  spec.emulated = m.emulated;
  spec.collectives = m.procs > 0 ? "procs" : m.collectives;
  spec.steps = m.steps > 0 ? m.steps : m.emulated ? emulated_steps : gpu ? gpu_steps : cpu_steps;
  spec.seed = m.seed;
  spec.data = m.data;
  spec.weights = m.weights;
  spec.checkpoint = m.checkpoint;
  spec.resume = m.resume;
  spec.learning_rate = m.learning_rate;
  spec.warmup_steps = m.warmup;
  spec.memory_limit = m.memory_limit.empty() ? 0 : parse_size("--memory-limit", m.memory_limit);
  spec.timeout_seconds = m.timeout;
  spec.parity = !m.no_parity && !m.emulated;
  spec.log_steps = m.log_steps;
  return spec;
}

profile::Profile predicted(const model::ModelSpec& model, StepConfig config) {
  config.runtime.kind = Runtime::ac_trainer;
  return advise::plan(model, config);
}

void not_counted(profile::Profile& profile, const std::string& why) {
  for (const char* field : profile::counted_fields) profile.absent[field] = why;
}

void add_trace(const profile::RunSpec& spec, profile::Profile& measured) {
  std::string why;
  TrainerResult ran;
  const trace::TraceFile file = run_trainer_traced(spec, ran, why);
  if (ran.exit_code != 0) return trace::add_no_activity(measured, why);
  try {
    trace::add_activity(measured, trace::step_activity(file));
  } catch (const UserError& error) {
    return trace::add_no_activity(measured, (why.empty() ? "" : why + "; ") + error.what());
  }
  if (!ran.profiles.empty())
    measured.instruments->runs.push_back({"trace", ran.profiles.front().time.step});
}

void add_counted(profile::RunSpec spec, profile::Profile& measured) {
  std::string why;
  spec.instrument = "counters";
  const TrainerResult ran = run_trainer(spec, why);
  if (ran.exit_code != 0 || ran.profiles.empty())
    return not_counted(measured, why.empty() ? "the run with counters did not end well" : why);
  const profile::Profile& from = ran.profiles.front();
  profile::Instruments& instruments = *measured.instruments;
  if (from.instruments) {
    instruments.dram_read_bytes = from.instruments->dram_read_bytes;
    instruments.dram_write_bytes = from.instruments->dram_write_bytes;
    instruments.dram_percent_of_peak = from.instruments->dram_percent_of_peak;
  }
  measured.kernels.bytes = from.kernels.bytes;
  const auto take_reason = [&](const char* field) {
    measured.absent.erase(field);
    if (const auto reason = from.absent.find(field); reason != from.absent.end())
      measured.absent[field] = reason->second;
  };
  for (const char* field : profile::counted_fields) take_reason(field);
  take_reason("kernels.bytes");
  // A counted step is never a captured one: beside such a one its time says nothing of counters.
  if (!measured.absent.contains(profile::counted_fields[0]) &&
      measured.config.runtime.cuda_graph == CudaGraph::off)
    instruments.runs.push_back({"counters", from.time.step});
}

/// Runs again with each instrument that was asked for; what each adds to a step is in the result.
void add_instruments(const MeasureArguments& m, profile::RunSpec spec, profile::Profile& measured) {
  if (!m.trace && !m.counters) return;
  spec.parity = false;
  spec.checkpoint.clear();
  spec.resume = false;
  measured.instruments.emplace().runs.push_back({"timing", measured.time.step});
  if (m.trace)
    add_trace(spec, measured);
  else
    trace::add_no_activity(measured, "not asked for: measure with --trace");
  if (m.counters)
    add_counted(spec, measured);
  else
    not_counted(measured, "not asked for: measure with --counters");
}

/// After running out of memory: the fastest configurations of the same step that would fit.
void suggest(const model::ModelSpec& model, const StepConfig& base, std::int64_t limit) {
  if (limit <= 0) return;
  StepConfig start = base;
  start.runtime.kind = Runtime::ac_trainer;
  advise::Space space = advise::default_space(model, start);
  space.largest_batches = 0;  // not shown
  space.keep("--batch", start);
  space.keep("--shard", start);
  const advise::Sweep sweep = advise::sweep(model, start, space);
  std::size_t shown = 0;
  for (const advise::Row& row : sweep.rows) {
    if (row.profile.memory.peak_allocated > limit || shown == 3) continue;
    if (shown++ == 0) std::fputs("would fit, by prediction:\n", stderr);
    std::fprintf(stderr, "  %-36s %14lld bytes\n", row.label.c_str(),
                 static_cast<long long>(row.profile.memory.peak_allocated));
  }
  if (shown == 0)
    std::fputs(
        "no checkpointing mode, loss or fusion makes it fit: use a smaller --batch or "
        "--seq, or more ranks\n",
        stderr);
}

/// 3 for all ways not to have measured but bad input and a signal.
int exit_code(int trainer) { return trainer == 2 || trainer > 128 ? trainer : 3; }

OptionList options_to_run(const StepConfig& config) {
  StepConfig plain = config;
  plain.runtime.kind = Runtime::pytorch;  // which runtime runs it is no option
  auto options = reports::options_of(plain);
  if (!options)
    throw UserError("this configuration cannot be said in options, so it cannot be run");
  return *options;
}

}  // namespace

Result run_measure(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, settle(a.options, a.measure));
  const OptionList& options = resolved.options;
  const StepConfig& config = resolved.config;
  check_emulated(a.measure, config);
  const bool gpu = simulate::find_device(config.device.gpu).cuda;
  if (!gpu && (a.measure.trace || a.measure.counters))
    throw UserError(std::string(a.measure.trace ? "--trace" : "--counters") + " with --gpu " +
                    config.device.gpu + ": CUPTI looks at GPUs; name the one that is here");
  check_instruments(a.measure);
  tell_warnings(model, config);
  reports::Measurement result;
  result.predicted = predicted(model, config);  // refuses what the trainer refuses, in its words
  profile::RunSpec spec = run_spec(a, gpu);
  spec.configs = {options};
  spec.configs.front().insert(spec.configs.front().end(), resolved.derived.begin(),
                              resolved.derived.end());
  std::string why;
  TrainerResult ran = run_trainer(spec, why);
  if (!why.empty()) std::fprintf(stderr, "ac-advisor: could not measure: %s\n", why.c_str());
  if (ran.exit_code == 4) suggest(model, config, spec.memory_limit);
  if (ran.exit_code != 0) return {"", exit_code(ran.exit_code)};
  if (ran.profiles.empty()) return {"", 0, /*told_elsewhere=*/true};
  result.measured = std::move(ran.profiles.front());
  result.label = "measured";
  add_instruments(a.measure, spec, result.measured);
  if (a.format == "html")
    return {reports::html({{{"", result.predicted}, {"", result.measured}}, {}, spec.model}), 0};
  return {render(result, a.format, terminal_style(a.output, a.rows)), 0};
}

Result run_measured_sweep(const Arguments& a) {
  const model::ModelSpec model = load_model(a);
  Arguments settled = a;
  advise::Resolved resolved = resolve(model, settle(a.options, a.measure));
  settled.options = resolved.options;
  StepConfig base = std::move(resolved.config);
  check_emulated(a.measure, base);
  tell_warnings(model, base);
  base.runtime.kind = Runtime::ac_trainer;
  advise::Space space = advise::space_around(model, base, settled.options);
  space.largest_batches = 0;  // not shown
  space.keep("--batch", base);
  space.set("--ac-scope", {"block"});
  if (base.layout.world > 1) space.keep("--shard", base);
  if (!given(settled.options, "--loss")) space.set("--loss", {"ce", "lc-ce"});
  const advise::Sweep sweep = advise::sweep(model, base, space);
  profile::RunSpec spec = run_spec(settled, simulate::find_device(base.device.gpu).cuda);
  reports::Measurements result;
  const auto add = [&](std::vector<reports::Measurement>& list, const std::string& label,
                       const StepConfig& config) {
    list.push_back({label, predicted(model, config), {}});
    spec.configs.push_back(options_to_run(config));
  };
  for (const advise::Saving& row : sweep.savings) add(result.savings, row.technique, row.config);
  for (const advise::Row& row : sweep.rows) {
    const StepConfig& c = row.profile.config;  // sharding and batch are the same in all
    add(result.rows, ac_option(c) + " " + loss_option(c) + " " + to_option(c.memory.kernels), c);
  }
  result.part = {a.measure.part, a.measure.parts};
  const std::size_t savings = result.savings.size();
  result.savings = reports::own_part(result.savings, result.part);
  result.rows = reports::own_part(result.rows, result.part);
  const auto asked = std::move(spec.configs);
  const auto middle = asked.begin() + static_cast<std::ptrdiff_t>(savings);
  spec.configs = reports::own_part(std::vector<OptionList>(asked.begin(), middle), result.part);
  for (OptionList& own :
       reports::own_part(std::vector<OptionList>(middle, asked.end()), result.part))
    spec.configs.push_back(std::move(own));
  if (spec.collectives == "procs")
    throw UserError(
        "advise --measure runs its ranks as threads; leave --procs and --collectives "
        "procs to measure");
  std::string why;
  TrainerResult ran;  // more parts than configurations: nothing to run
  if (!spec.configs.empty()) {
    ran = run_trainer(spec, why);
    if (!why.empty()) std::fprintf(stderr, "ac-advisor: could not measure: %s\n", why.c_str());
    if (ran.exit_code != 0) return {"", exit_code(ran.exit_code)};
    if (ran.profiles.empty()) return {"", 0, /*told_elsewhere=*/true};
  }
  std::size_t next = 0;
  for (auto* list : {&result.savings, &result.rows})
    for (reports::Measurement& row : *list) row.measured = std::move(ran.profiles.at(next++));
  if (a.format == "html") {
    return {reports::html({reports::documents_of(result), {}, spec.model}), 0};
  }
  return {render(result, a.format, terminal_style(a.output, a.rows)), 0};
}

}  // namespace ac_advisor::cli
