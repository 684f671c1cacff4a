#include <unistd.h>

#include <cstdio>
#include <set>

#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/trace_summary.hpp"
#include "ac_advisor/trace/machine.hpp"
#include "ac_advisor/trace/run_traced.hpp"
#include "ac_advisor/trace/summary.hpp"
#include "cli/commands.hpp"
#include "cli/not_measured.hpp"
#include "cli/output.hpp"
#include "cli/read_traces.hpp"

namespace ac_advisor::cli {
namespace {

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

/// Of what tracing needs; hardware counters are not of it.
std::string missing_here() {
  const trace::Examination machine = trace::examine(trace::look_at_machine());
  std::string text;
  for (const trace::Check& check : machine.checks)
    if (check.state == trace::Check::State::missing && check.name != trace::counters_check &&
        check.name != trace::counters_library_check)
      text += "\n  " + check.name + ": " + check.found;
  return text;
}

/// What the processes noted, each once.
std::string notes(const trace::TracedRun& run) {
  std::set<std::string> all(run.lacks.begin(), run.lacks.end());
  for (const trace::Trace& t : run.file.processes)
    for (const std::string& note : t.notes)
      if (note.find("not recorded") != std::string::npos ||
          note.find("CUPTI delivered no records") != std::string::npos)
        all.insert(note);
  std::string text;
  for (const std::string& note : all) text += "\n  " + note;
  return text;
}

}  // namespace

std::string run_read_trace(const Arguments& a) {
  reports::Document document = read_traces(a.positional);
  if (a.format == "html") return reports::html({{std::move(document)}, {}, ""});
  return std::visit(
      [&](const auto& value) { return render(value, a.format, terminal_style(a.output, a.rows)); },
      document.value);
}

void run_trace(const Arguments& a) {
  // Known before, and worth knowing before a long run.
  const std::string missing = missing_here();
  if (!missing.empty())
    say("ac-advisor: nothing will be measured here (see ac-advisor doctor):" +
        reports::printable_lines(missing) + "\n");
  trace::TracedRun run = trace::run_traced(a.positional);
  std::int64_t kernels = 0;
  for (const trace::Trace& t : run.file.processes) kernels += t.kernel_count();
  if (kernels == 0)
    throw NotMeasured(reports::printable_lines(
        "not measured: no CUDA activity was recorded (processes that used CUDA or NVTX: " +
        std::to_string(run.file.processes.size()) + ")" + missing + notes(run) +
        "\nthe command ended with " + run.ended));
  const std::string file =
      a.output.empty() ? "ac-advisor-trace." + std::to_string(::getpid()) + ".json" : a.output;
  write_output(trace::to_json(run.file), file);
  run.file.origin = file;
  say(reports::table(trace::summary_of(run.file), {}));
  say("ac-advisor: written to " + file + "; two such files go into ac-advisor diagnose\n");
  if (run.file.exit_code != 0)
    throw NotMeasured("the command ended with " + run.ended + "; " + file +
                      " holds what it did until then");
}

}  // namespace ac_advisor::cli
