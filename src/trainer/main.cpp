// ac-trainer RUN.json: takes a run specification (`ac-advisor measure` writes it), runs it, writes
// the measured profiles. Exit codes: 0 done, 2 bad input, 3 could not measure, 4 out of memory,
// 70 a fault of this program, 128 + the signal's number where one has stopped it (130: Ctrl-C).
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/run_spec.hpp"
#include "trainer/launch.hpp"

namespace {

using namespace ac_advisor;

profile::RunSpec read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(path + ": cannot be read; ac-trainer takes a run specification");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return profile::read_run_spec(text, path);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);  // what is sent to a rank that has died is that collective's error
  try {
    if (argc != 2 || argv[1][0] == '-') {
      std::fputs(
          "usage: ac-trainer RUN.json\nStarted by `ac-advisor measure`, which writes the "
          "run specification.\n",
          argc == 2 ? stdout : stderr);
      return argc == 2 ? 0 : 2;
    }
    return trainer::launch(read(argv[1]));
  } catch (const UserError& error) {
    std::fprintf(stderr, "ac-trainer: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ac-trainer: internal error: %s\n", error.what());
    return 70;
  }
}
