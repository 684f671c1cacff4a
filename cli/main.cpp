#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "cli/command_table.hpp"
#include "cli/help.hpp"
#include "cli/not_measured.hpp"
#include "cli/output.hpp"
#include "cli/still_working.hpp"
#include "cli/training.hpp"
#include "process/ending_signals.hpp"
#include "process/kept_memory.hpp"

using namespace ac_advisor;
using namespace std::chrono_literals;

namespace {

int run_command(int argc, char** argv) {
  try {
    const cli::Arguments arguments =
        cli::with_training(cli::parse_arguments(argc, argv, cli::terminal_columns()));
    const cli::CommandRow& command = *cli::find_command(arguments.command);
    // A program that it starts is to end with this one.
    std::optional<process::EndingSignals> noted;
    if (command.starts_programs || arguments.measured) noted.emplace();
    // What plans is quiet until it is done; what runs programs is not.
    std::optional<cli::StillWorking> still_working;
    if (command.step && !noted)
      still_working.emplace(std::string(command.name), 15s, 60s, [](const std::string& text) {
        std::fprintf(stderr, "ac-advisor: %s\n", text.c_str());
      });
    const cli::Result result = cli::tell_training(arguments, command.run(arguments));
    still_working.reset();
    if (process::EndingSignals::first() != 0 && !command.operands.program) return 3;
    if (result.told_elsewhere) return result.exit_code;
    const std::string output = command.writes_itself ? "" : arguments.output;
    if (!result.text.empty() || (result.exit_code == 0 && !command.writes_itself))
      cli::write_output(result.text, output);
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

}  // namespace

// Exit codes: 0 done, 1 a limit of the gate is exceeded or
// a step does not fit with --fail-if-oom, 2 usage or bad input, 3 it
// could not be measured, 70 a fault of this program, 128 + its number where a signal has ended it.
int main(int argc, char** argv) {
  // A file that grows too large is an error of write, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  process::keep_freed_memory();
  const int code = run_command(argc, argv);
  const int signal = process::EndingSignals::first();
  return signal == 0 ? code : process::exit_code_of(signal);
}
