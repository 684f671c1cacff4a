#include "ac_advisor/trace/run_traced.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/injection.hpp"
#include "trace/nvml.hpp"

namespace ac_advisor::trace {
namespace {

namespace fs = std::filesystem;

constexpr const char* injections[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};
constexpr std::chrono::milliseconds sampling_period{50};

/// Where the processes leave their traces; gone with this.
class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "ac-advisor-trace.XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw UserError(path_ + ": " + std::strerror(errno) +
                      "; set TMPDIR to a folder that can be "
                      "written");
  }
  ~Folder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The most that is in use on a device, while it lives.
class DeviceMemory {
 public:
  DeviceMemory() : peak_(nvml_.error().empty() ? nvml_.most_used_bytes() : -1) {
    if (peak_ >= 0) thread_ = std::thread([this] { sample(); });
  }
  ~DeviceMemory() { stop(); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// -1: cannot be read.
  std::int64_t peak() {
    stop();
    return peak_;
  }
  [[nodiscard]] const std::string& error() const { return nvml_.error(); }

 private:
  void sample() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, sampling_period, [this] { return done_; }))
      peak_ = std::max(peak_, nvml_.most_used_bytes());
  }
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  Nvml nvml_;
  std::int64_t peak_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

std::atomic<pid_t> child = 0;

extern "C" void pass_on(int signal) {
  if (const pid_t pid = child; pid > 0) ::kill(pid, signal);
}

/// Ctrl-C reaches the child by itself and ends it, not this program, which has its trace to read.
class Signals {
 public:
  Signals() {
    struct sigaction ignore {
    }, pass{};
    ignore.sa_handler = SIG_IGN;
    pass.sa_handler = pass_on;
    pass.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &ignore, &old_[0]);
    ::sigaction(SIGQUIT, &ignore, &old_[1]);
    ::sigaction(SIGTERM, &pass, &old_[2]);
    ::sigaction(SIGHUP, &pass, &old_[3]);
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  void restore() const {
    static constexpr int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    for (std::size_t i = 0; i < 4; ++i) ::sigaction(numbers[i], &old_[i], nullptr);
  }

 private:
  struct sigaction old_[4]{};
};

/// What execvp said through the pipe, 0 where it went well.
int exec_error(int pipe) {
  int problem = 0;
  while (::read(pipe, &problem, sizeof problem) < 0 && errno == EINTR) {
  }
  ::close(pipe);
  return problem;
}

using Environment = std::vector<std::pair<std::string, std::string>>;

/// This process's environment with `more` in it, as exec takes it. Made before the fork: a child
/// of a program with threads may not allocate.
std::vector<std::string> environment_with(const Environment& more) {
  std::vector<std::string> lines;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const std::string name = line.substr(0, line.find('='));
    if (std::none_of(more.begin(), more.end(), [&](const auto& m) { return m.first == name; }))
      lines.push_back(line);
  }
  for (const auto& [name, value] : more) lines.push_back(name + "=" + value);
  return lines;
}

/// Null-terminated, as exec takes it.
std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> out;
  for (std::string& line : lines) out.push_back(line.data());
  out.push_back(nullptr);
  return out;
}

int run(std::vector<std::string> command, const Environment& more) {
  std::vector<std::string> environment = environment_with(more);
  const std::vector<char*> words = pointers(command), settings = pointers(environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw UserError(command[0] + ": cannot be started: " + std::strerror(errno));
  const Signals signals;
  const pid_t pid = ::fork();
  if (pid < 0) throw UserError(command[0] + ": cannot be started: " + std::strerror(errno));
  if (pid == 0) {
    signals.restore();
    ::execvpe(words[0], words.data(), settings.data());
    const int problem = errno;
    [[maybe_unused]] const ssize_t told = ::write(ends[1], &problem, sizeof problem);
    ::_exit(127);
  }
  child = pid;
  ::close(ends[1]);
  const int problem = exec_error(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  if (problem != 0)
    throw UserError(command[0] + ": cannot be started: " + std::strerror(problem) +
                    "; give the command as the shell would find it");
  return status;
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

/// The traces that the processes left; one that is not whole is told of in `lacks`.
void collect(const std::string& folder, TracedRun& run) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    try {
      for (Trace& trace : from_json(text.str(), file.filename().string()).processes)
        run.file.processes.push_back(std::move(trace));
    } catch (const UserError& error) {
      run.lacks.emplace_back(error.what());
    }
  }
}

}  // namespace

TracedRun run_traced(const std::vector<std::string>& command) {
  for (const char* name : injections)
    if (const char* other = std::getenv(name); other != nullptr && *other != '\0')
      throw UserError(std::string(name) + " is set to " + other +
                      ": another tool would be replaced; unset it");
  TracedRun result;
  const Folder folder;
  const Injection library = injection();
  Environment environment;
  if (library.library.empty()) {
    result.lacks.push_back(library.reason);
  } else {
    for (const char* name : injections) environment.emplace_back(name, library.library);
    environment.emplace_back(trace_folder_variable, folder.path());
  }
  DeviceMemory memory;
  const int status = run(command, environment);
  result.file.command = joined(command);
  if (WIFEXITED(status)) {
    result.file.exit_code = WEXITSTATUS(status);
    result.ended = "exit code " + std::to_string(WEXITSTATUS(status));
  } else {
    result.ended =
        "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
  }
  collect(folder.path(), result);
  const std::int64_t used = memory.peak();
  for (Trace& trace : result.file.processes)
    if (used >= 0)
      trace.memory.device_used = used;
    else
      trace.notes.push_back("memory in use on the device: not sampled; no NVML (" + memory.error() +
                            ")");
  return result;
}

}  // namespace ac_advisor::trace
