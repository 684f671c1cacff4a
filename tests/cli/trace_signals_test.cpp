// `ac-advisor trace -- CMD`: signals to it are the command's, its temporary folder goes with it,
// and nothing that the command started outlives it; the same for dryrun and import.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("ac-trace-signals-{}", ::getpid());
  Folder() { fs::create_directories(path / "tmp"); }
  ~Folder() { fs::remove_all(path); }
};

bool appears(const fs::path& file) {
  for (int i = 0; i < 2000 && !fs::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return fs::exists(file);
}

/// What `trace` of a command ends with that notes `signal` and then ends with 5.
int exit_code_after(int signal, const Folder& folder) {
  const std::string ready = folder.path / "ready", heard = folder.path / "heard";
  const std::string command =
      fmt::format("trap 'echo heard > {1}; kill $!; exit 5' {2}; sleep 60 & echo > {0}; wait",
                  ready, heard, signal);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("TMPDIR", (folder.path / "tmp").c_str(), 1);
    // LeakSanitizer's own tracer can crash in a process that has loaded the real CUPTI.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    const std::string program(ac_advisor::test::program);
    ::execl(program.c_str(), program.c_str(), "trace", "--", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  REQUIRE(appears(ready));
  ::kill(pid, signal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(fs::exists(heard));
  fs::remove(ready);
  fs::remove(heard);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Ends `command` of a shell whose own child has written its number to a file, by SIGTERM; whether
/// that child still lives when the program has ended.
bool leaves_grandchild(const char* command, const std::string& before_sleep, const Folder& folder) {
  const std::string number = folder.path / "number";
  const std::string script = fmt::format(
      "sh -c '{0} echo $$ > {1}.part; mv {1}.part {1}; while :; do sleep 1; done'; true",
      before_sleep, number);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("TMPDIR", (folder.path / "tmp").c_str(), 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    const std::string program(ac_advisor::test::program);
    ::execl(program.c_str(), program.c_str(), command, "--", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  REQUIRE(appears(number));
  int grandchild = 0;
  std::ifstream(number) >> grandchild;
  REQUIRE(grandchild > 0);
  ::kill(pid, SIGTERM);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGTERM);
  fs::remove(number);
  const bool lives = ::kill(grandchild, 0) == 0;
  if (lives) ::kill(grandchild, SIGKILL);
  return lives;
}

}  // namespace

TEST_CASE("what a shell started ends with the shell, also where it does not listen") {
  const Folder folder;
  CHECK_FALSE(leaves_grandchild("trace", "", folder));
  CHECK_FALSE(leaves_grandchild("trace", "trap \"\" TERM;", folder));
  CHECK(fs::is_empty(folder.path / "tmp"));
  if (!fs::exists(fs::path(ac_advisor::test::program).parent_path() / "emulator")) return;
  CHECK_FALSE(leaves_grandchild("dryrun", "", folder));
  CHECK_FALSE(leaves_grandchild("import", "", folder));
  CHECK(fs::is_empty(folder.path / "tmp"));
}

TEST_CASE("trace: a signal to it is the command's, and ends it with 128 + its number") {
  const Folder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    CAPTURE(signal);
    CHECK(exit_code_after(signal, folder) == 128 + signal);
    CHECK(fs::is_empty(folder.path / "tmp"));
  }
}

TEST_CASE("trace: SIGUSR1 is between others and the command") {
  const Folder folder;
  CHECK(exit_code_after(SIGUSR1, folder) == 3);  // the command's 5 is no measurement
  CHECK(fs::is_empty(folder.path / "tmp"));
}
