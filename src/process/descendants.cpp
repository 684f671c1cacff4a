#include "process/descendants.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace ac_advisor::process {
namespace {

namespace fs = std::filesystem;

struct Process {
  pid_t pid = 0, parent = 0;
  char state = 'Z';
};

/// proc(5), stat: "pid (name) state parent …"; a name may hold any character.
Process read_process(const fs::path& folder) {
  Process p;
  std::ifstream file(folder / "stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_ends = line.rfind(')');
  int parent = 0;
  if (name_ends == std::string::npos ||
      std::sscanf(line.c_str() + name_ends, ") %c %d", &p.state, &parent) != 2)
    return {};
  p.pid = std::atoi(folder.filename().c_str());
  p.parent = parent;
  return p;
}

/// Those that have not ended.
std::vector<pid_t> descendants() {
  std::vector<Process> all;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error))
    if (const char first = at->path().filename().c_str()[0]; first >= '0' && first <= '9')
      all.push_back(read_process(at->path()));
  std::vector<pid_t> family{::getpid()};
  for (std::size_t i = 0; i < family.size(); ++i)
    for (const Process& p : all)
      if (p.pid > 0 && p.parent == family[i] && p.state != 'Z') family.push_back(p.pid);
  family.erase(family.begin());
  return family;
}

void reap() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

Adopting::Adopting() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Adopting::~Adopting() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

void end_descendants() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{5}, last_patience{2};
  const Clock::time_point until = Clock::now() + patience;
  std::vector<pid_t> asked;
  for (std::vector<pid_t> left = descendants(); !left.empty(); left = descendants()) {
    const bool waits = Clock::now() < until;
    if (Clock::now() > until + last_patience) return;  // of another user, or in the kernel
    for (const pid_t pid : left) {
      const bool again = std::find(asked.begin(), asked.end(), pid) != asked.end();
      if (!waits) ::kill(pid, SIGKILL);
      if (waits && !again) ::kill(pid, SIGTERM);
      if (!again) asked.push_back(pid);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    reap();
  }
  reap();
}

}  // namespace ac_advisor::process
