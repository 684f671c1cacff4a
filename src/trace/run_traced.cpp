#include "ac_advisor/trace/run_traced.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/injection.hpp"
#include "process/child.hpp"
#include "process/ending_signals.hpp"
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

TracedRun run_traced(const std::vector<std::string>& command, bool ends_with_caller) {
  for (const char* name : injections)
    if (const char* other = std::getenv(name); other != nullptr && *other != '\0')
      throw UserError(std::string(name) + " is set to " + other +
                      ": another tool would be replaced; unset it");
  TracedRun result;
  const process::EndingSignals noted;  // as long as there is a folder
  const Folder folder;
  const Injection library = injection();
  process::Environment environment;
  if (library.library.empty()) {
    result.lacks.push_back(library.reason);
  } else {
    for (const char* name : injections) environment.emplace_back(name, library.library);
    environment.emplace_back(trace_folder_variable, folder.path());
  }
  DeviceMemory memory;
  using process::WithoutParent;
  const process::ChildEnd end = process::run_child(
      command, environment, ends_with_caller ? WithoutParent::ends : WithoutParent::goes_on);
  if (end.error != 0)
    throw UserError(command[0] + ": cannot be started: " + std::strerror(end.error) +
                    "; give the command as the shell would find it");
  result.file.command = joined(command);
  result.ended = end.started ? process::how_it_ended(end.status) : "a signal before it was started";
  if (end.started && WIFEXITED(end.status)) result.file.exit_code = WEXITSTATUS(end.status);
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
