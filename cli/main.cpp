#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/version.hpp"
#include "cli/commands.hpp"
#include "cli/not_measured.hpp"
#include "cli/output.hpp"

namespace {

using namespace ac_advisor;

cli::Result run(const cli::Arguments& a) {
  if (a.command == "check") return cli::run_check(a);
  if (a.command == "measure") return cli::run_measure(a);
  if (a.command == "calibrate") return cli::run_calibrate(a);
  if (a.command == "advise" && a.measured) return cli::run_measured_sweep(a);
  const std::map<std::string, std::function<std::string()>> commands{
      {"plan", [&] { return cli::run_plan(a); }},
      {"advise", [&] { return cli::run_advise(a); }},
      {"compare", [&] { return cli::run_compare(a); }},
      {"report", [&] { return cli::run_report(a); }},
      {"explain", [&] { return cli::run_explain(a); }},
      {"export", [&] { return cli::run_export(a); }},
      {"trace", [&] { return cli::run_read_trace(a); }},
      {"diagnose", [&] { return cli::run_diagnose(a); }},
      {"doctor", [&] { return cli::run_doctor(a); }},
      {"models", [] { return cli::run_models(); }},
      {"devices", [] { return cli::run_devices(); }},
      {"help", [&] { return a.help; }},
      {"version", [] { return "ac-advisor " + std::string(version) + "\n"; }},
  };
  return {commands.at(a.command)()};
}

}  // namespace

// Exit codes: 0 done, 1 a limit of the gate is exceeded, 2 usage or bad input, 3 it
// could not be measured, 70 a fault of this program.
int main(int argc, char** argv) {
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file that grows too large is an error of write, like a full disk
  try {
    const cli::Arguments arguments = cli::parse_arguments(argc, argv);
    // Its output file is written by itself: stdout is the traced program's.
    if (arguments.command == "trace" && arguments.runs_program) return cli::run_trace(arguments), 0;
    const cli::Result result = run(arguments);
    // calibrate writes the device file itself.
    const std::string output = arguments.command == "calibrate" ? "" : arguments.output;
    if (!result.text.empty() || result.exit_code == 0) cli::write_output(result.text, output);
    return result.exit_code;
  } catch (const UserError& error) {
    std::fprintf(stderr, "ac-advisor: %s\n", error.what());
    return 2;
  } catch (const cli::NotMeasured& error) {
    std::fprintf(stderr, "ac-advisor: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ac-advisor: internal error: %s\n", error.what());
    return 70;
  }
}
