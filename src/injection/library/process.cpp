#include "injection/library/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "ac_advisor/trace/injection.hpp"
#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::injection {
namespace {

const pid_t own_pid = ::getpid();

std::string process_name() {
  std::ifstream stream("/proc/self/comm");
  std::string name;
  std::getline(stream, name);
  return name;
}

bool write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

void write_whole(const std::string& text, const std::string& path) {
  const std::string temporary = path + ".part";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  const bool written = write_all(file, text);
  if (::close(file) == 0 && written)
    std::rename(temporary.c_str(), path.c_str());
  else
    ::unlink(temporary.c_str());
}

}  // namespace

std::atomic<bool> forked_child = false;

trace::Recorder& recorder() {
  static auto& only = []() -> trace::Recorder& {
    pthread_atfork(nullptr, nullptr, [] { forked_child = true; });
    return *new trace::Recorder(own_pid);
  }();
  return only;
}

void write_trace(bool ended) {
  const char* const folder = std::getenv(trace::trace_folder_variable);
  if (folder == nullptr || *folder == '\0') return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  trace::Trace trace = recorder().report();
  trace.process = process_name();
  if (!ended)
    trace.notes.emplace_back(
        "the program had not ended, or did not end by exit(), when this was "
        "written: the last work is missing");
  trace::TraceFile file;
  file.processes.push_back(std::move(trace));
  write_whole(trace::to_json(file),
              std::string(folder) + "/trace." + std::to_string(own_pid) + ".json");
}

}  // namespace ac_advisor::injection
