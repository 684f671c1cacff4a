#include "process/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "process/descendants.hpp"
#include "process/ending_signals.hpp"

namespace ac_advisor::process {
namespace {

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

/// Of a child that writes to a file; closed with this.
class Streams {
 public:
  explicit Streams(const std::string& output) {
    if (output.empty()) return;
    in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0) error = errno;
  }
  ~Streams() {
    for (const int stream : {in, out})
      if (stream >= 0) ::close(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  int in = -1, out = -1;
  int error = 0;
};

/// Null-terminated, as exec takes it.
std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> out;
  for (std::string& line : lines) out.push_back(line.data());
  out.push_back(nullptr);
  return out;
}

/// In the child: its streams from then on.
void take_streams(const Streams& streams) {
  if (streams.in < 0) return;
  ::dup2(streams.in, STDIN_FILENO);
  ::dup2(streams.out, STDOUT_FILENO);
  ::dup2(streams.out, STDERR_FILENO);
}

[[noreturn]] void become(const std::vector<char*>& words, const std::vector<char*>& settings,
                         pid_t parent, const SignalsWait& waiting, WithoutParent without,
                         const Streams& streams, int problems) {
  EndingSignals::forget();
  take_streams(streams);
  if (without == WithoutParent::ends) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(exit_code_of(SIGTERM));  // died before that call
  }
  ::pthread_sigmask(SIG_SETMASK, &waiting.before(), nullptr);
  ::execvpe(words[0], words.data(), settings.data());
  const int problem = errno;
  [[maybe_unused]] const ssize_t told = ::write(problems, &problem, sizeof problem);
  ::_exit(127);
}

/// What exec said through the pipe, 0 where it went well.
int exec_error(int pipe) {
  int problem = 0;
  while (::read(pipe, &problem, sizeof problem) < 0 && errno == EINTR) {
  }
  ::close(pipe);
  return problem;
}

/// The child stays a zombie until nothing is passed on to its number any more.
int wait_for(pid_t pid) {
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  EndingSignals::pass_to(0);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ChildEnd run_child(std::vector<std::string> command, const Environment& more, WithoutParent without,
                   const std::string& output) {
  std::vector<std::string> environment = environment_with(more);
  const std::vector<char*> words = pointers(command), settings = pointers(environment);
  ChildEnd end;
  const Streams streams(output);
  if (streams.error != 0) {
    end.error = streams.error;
    return end;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    end.error = errno;
    return end;
  }
  const EndingSignals noted;
  const Adopting orphans;
  pid_t pid = -1;
  {
    const SignalsWait waiting;
    const pid_t self = ::getpid();
    if (EndingSignals::first() == 0) {
      pid = ::fork();
      if (pid == 0) become(words, settings, self, waiting, without, streams, ends[1]);
      if (pid < 0) end.error = errno;
    }
    EndingSignals::pass_to(std::max(pid, 0));
    // Another thread may have taken one before the child was known.
    if (const int told = EndingSignals::first(); told != 0 && pid > 0) ::kill(pid, told);
  }
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return end;
  }
  end.error = exec_error(ends[0]);
  end.started = end.error == 0;
  end.status = wait_for(pid);
  // A shell that is ended leaves what it ran.
  if (EndingSignals::first() != 0) end_descendants();
  return end;
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
}

}  // namespace ac_advisor::process
