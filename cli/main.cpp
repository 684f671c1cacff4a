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

std::string run(const cli::Arguments& a) {
  const std::map<std::string, std::function<std::string()>> commands{
      {"plan", [&] { return cli::run_plan(a); }},
      {"advise", [&] { return cli::run_advise(a); }},
      {"compare", [&] { return cli::run_compare(a); }},
      {"explain", [&] { return cli::run_explain(a); }},
      {"export", [&] { return cli::run_export(a); }},
      {"diagnose", [&] { return cli::run_diagnose(a); }},
      {"doctor", [&] { return cli::run_doctor(a); }},
      {"models", [] { return cli::run_models(); }},
      {"devices", [] { return cli::run_devices(); }},
      {"help", [&] { return a.help; }},
      {"version", [] { return "ac-advisor " + std::string(version) + "\n"; }},
  };
  return commands.at(a.command)();
}

}  // namespace

// Exit codes: 0 done, 2 usage or bad input, 3 could not measure, 70 a fault of this program.
int main(int argc, char** argv) {
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file that grows too large is an error of write, like a full disk
  try {
    const cli::Arguments arguments = cli::parse_arguments(argc, argv);
    // Its output file is written by itself: stdout is the traced program's.
    if (arguments.command == "trace") return cli::run_trace(arguments), 0;
    cli::write_output(run(arguments), arguments.output);
    return 0;
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
