// A `measure` that is told to end, whoever is told: nothing of it goes on, nothing of it stays.
#include <fmt/format.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "test_paths.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

bool within(double seconds, const std::function<bool()>& done) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// Living processes of a session, by /proc/PID/stat: "pid (name) state ppid pgrp session …".
std::vector<pid_t> processes_of(pid_t session) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    std::ifstream file(entry.path() / "stat");
    std::stringstream text;
    text << file.rdbuf();
    const std::string stat = text.str();
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0, group = 0, its_session = 0;
    rest >> state >> parent >> group >> its_session;
    if (its_session == session && state != 'Z')
      found.push_back(static_cast<pid_t>(std::stol(entry.path().filename())));
  }
  return found;
}

/// `ac-advisor measure` in a session and a temporary folder of its own, with a log of its steps.
class Measure {
 public:
  explicit Measure(const std::string& options, bool terminal = false) {
    fs::create_directories(folder_ / "tmp");
    const std::string line = fmt::format(
        "exec {} measure tiny-llama --batch 2 --seq 32 --param-dtype fp32 --compute-dtype fp32 "
        "--reduce-dtype fp32 --no-parity --log-steps --steps 1000000 --output {} {} 2>{}",
        test::program, file("out"), options, file("log"));
    int terminal_end = -1;
    pid_ = terminal ? ::forkpty(&terminal_end, nullptr, nullptr, nullptr) : ::fork();
    if (pid_ == 0) {
      // doctest has handlers of its own
      for (const int signal : {SIGTERM, SIGHUP, SIGINT}) ::signal(signal, SIG_DFL);
      if (!terminal) ::setsid();
      ::setenv("TMPDIR", file("tmp").c_str(), 1);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      ::_exit(127);
    }
    terminal_ = terminal_end;
  }
  ~Measure() {
    for (const pid_t left : processes_of(pid_)) ::kill(left, SIGKILL);
    if (code_ < 0) ::waitpid(pid_, nullptr, 0);
    if (terminal_ >= 0) ::close(terminal_);
    fs::remove_all(folder_);
  }
  Measure(const Measure&) = delete;
  Measure& operator=(const Measure&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string log() const {
    std::ifstream file(folder_ / "log");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  [[nodiscard]] bool steps() const {
    return within(60, [&] { return log().find("step     2") != std::string::npos; });
  }
  void type(char key) const { REQUIRE(::write(terminal_, &key, 1) == 1); }
  /// As a shell has it; -1 where it has not ended in time.
  int exit_code() {
    int status = 0;
    if (!within(20, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Its processes are gone, and its temporary folder is as empty as it was.
  [[nodiscard]] bool nothing_left() const {
    return within(10, [&] { return processes_of(pid_).empty(); }) &&
           fs::is_empty(folder_ / "tmp") && !fs::exists(folder_ / "out");
  }

 private:
  static inline int number_ = 0;
  fs::path folder_ =
      fs::temp_directory_path() / fmt::format("ac-ending-test-{}-{}", getpid(), ++number_);
  pid_t pid_ = -1;
  int terminal_ = -1, code_ = -1;
};

const char* const ways_to_run[] = {"", "--world 2 --shard fsdp2", "--procs 2 --shard fsdp2"};

}  // namespace

TEST_CASE("a signal to measure alone ends its trainer and every rank, with 128 + its number") {
  for (const char* options : ways_to_run)
    for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
      CAPTURE(options);
      CAPTURE(signal);
      Measure run(options);
      REQUIRE(run.steps());
      CHECK(processes_of(run.pid()).size() >= 2);
      ::kill(run.pid(), signal);
      CHECK(run.exit_code() == 128 + signal);
      CHECK(run.nothing_left());
      CAPTURE(run.log());
      CHECK(run.log().find("stopped after step") != std::string::npos);
      CHECK(run.log().find("failed") == std::string::npos);
    }
}

TEST_CASE("a signal to measure before its first step ends it as well") {
  for (const char* options : ways_to_run)
    for (const int milliseconds : {10, 30, 200, 700}) {
      CAPTURE(options);
      CAPTURE(milliseconds);
      Measure run(options);
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      ::kill(run.pid(), SIGTERM);
      CHECK(run.exit_code() == 128 + SIGTERM);
      CHECK(run.nothing_left());
    }
}

TEST_CASE("Ctrl-C at a terminal ends processes as ranks in order, whenever it comes") {
  for (int i = 0; i < 6; ++i) {
    Measure run("--procs 2 --shard fsdp2", /*terminal=*/true);
    REQUIRE(run.steps());
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));
    run.type('\x03');
    CHECK(run.exit_code() == 130);
    CHECK(run.nothing_left());
    CAPTURE(run.log());
    CHECK(run.log().find("failed") == std::string::npos);
  }
}

TEST_CASE("a measure that is killed takes its trainer and every rank with it") {
  for (const char* options : ways_to_run) {
    CAPTURE(options);
    Measure run(options);
    REQUIRE(run.steps());
    ::kill(run.pid(), SIGKILL);
    CHECK(run.exit_code() == 128 + SIGKILL);
    CHECK(run.nothing_left());
  }
}

TEST_CASE("a second signal, a second later, does not wait for the step that is under way") {
  Measure run("--procs 2 --shard fsdp2 --batch 512 --seq 1024");  // minutes a step
  // ac-advisor, ac-trainer, two ranks, that are given a moment to begin
  REQUIRE(within(60, [&] { return processes_of(run.pid()).size() == 4; }));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  ::kill(run.pid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  CHECK(processes_of(run.pid()).size() == 4);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.exit_code() == 128 + SIGTERM);
  CHECK(run.nothing_left());
}

}  // namespace ac_advisor
