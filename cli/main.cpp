#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "cli/command_table.hpp"
#include "cli/help.hpp"
#include "cli/not_measured.hpp"
#include "cli/output.hpp"

using namespace ac_advisor;

// Exit codes: 0 done, 1 a limit of the gate is exceeded, 2 usage or bad input, 3 it
// could not be measured, 70 a fault of this program.
int main(int argc, char** argv) {
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file that grows too large is an error of write, like a full disk
  try {
    const cli::Arguments arguments = cli::parse_arguments(argc, argv, cli::terminal_columns());
    const cli::CommandRow& command = *cli::find_command(arguments.command);
    const cli::Result result = command.run(arguments);
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
