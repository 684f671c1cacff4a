#include "trainer/launch.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "trainer/calibrate/run_calibration.hpp"
#include "trainer/run.hpp"
#include "trainer/stop.hpp"

namespace ac_advisor::trainer {
namespace {

/// The step that each rank is in, in memory that launcher and ranks share.
std::int64_t* steps = nullptr;
std::int64_t own_rank = 0;

void watch_step(std::int64_t step) {
  if (steps != nullptr) steps[own_rank] = step + 1;
}

/// A link (to a file without a name that the caller has open) is written through.
bool write_through(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool good =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return file != nullptr && std::fclose(file) == 0 && good;
}

void write_whole(const std::string& path, const std::string& text) {
  const auto not_cut_off = writing_a_file();
  std::error_code none;
  if (std::filesystem::is_symlink(path, none)) {
    if (write_through(path, text)) return;
    throw UserError(path + ": cannot be written: " + std::strerror(errno));
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = file != nullptr && std::fclose(file) == 0 && good;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  std::remove(temporary.c_str());
  throw UserError(path + ": cannot be written: " + why);
}

int run_here(const profile::RunSpec& spec, const Rendezvous& where) {
  watch_stop_signals();
  set_step_watch(watch_step);
  try {
    if (!spec.calibrate.empty()) {
      write_whole(spec.output, run_calibration(spec) + "\n");
      return 0;
    }
    const std::vector<profile::Profile> profiles = run(spec, where);
    if (where.rank != 0) return 0;
    nlohmann::json list = nlohmann::json::array();
    for (const profile::Profile& profile : profiles)
      list.push_back(nlohmann::json::parse(profile::to_json(profile, -1)));
    write_whole(spec.output, list.dump() + "\n");
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "ac-trainer: %s\n", failure.message.c_str());
    return failure.exit_code;
  } catch (const UserError& error) {
    if (where.rank == 0) std::fprintf(stderr, "ac-trainer: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ac-trainer: rank %lld: %s\n", static_cast<long long>(where.rank),
                 first_line(error.what()).c_str());
    return 70;
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

/// The ranks' processes, and how the first of them ended that did not end well.
class Ranks {
 public:
  /// In a child it returns the rank's number, in the launcher -1 with all of them started.
  std::int64_t start(std::int64_t world) {
    const pid_t launcher = getpid();
    for (std::int64_t rank = 0; rank < world; ++rank) {
      const pid_t child = fork();
      if (child < 0) {
        tell(SIGKILL);
        throw UserError(std::string("cannot start a rank: ") + std::strerror(errno));
      }
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != launcher) _exit(3);  // it died before that call
        return rank;
      }
      children_.push_back(child);
    }
    return -1;
  }
  void tell(int signal) const {
    for (const pid_t child : children_)
      if (child > 0) kill(child, signal);
  }
  /// Those that have ended are no more; whether there are others.
  bool reap() {
    int status = 0;
    for (pid_t child = 0; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = std::find(children_.begin(), children_.end(), child);
      if (found == children_.end()) continue;
      *found = 0;  // its number may be another process's from now on
      ended(static_cast<std::size_t>(found - children_.begin()), status);
    }
    return std::any_of(children_.begin(), children_.end(), [](pid_t child) { return child > 0; });
  }
  [[nodiscard]] int result() const { return result_; }

 private:
  void ended(std::size_t rank, int status) {
    if (result_ != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
    result_ = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    if (WIFSIGNALED(status) || result_ == 70) {
      result_ = 3;
      std::fprintf(stderr, "ac-trainer: rank %zu %s in step %lld; the other ranks are ended\n",
                   rank, how_it_ended(status).c_str(), static_cast<long long>(steps[rank]));
    }
    if (result_ <= 128) tell(SIGKILL);  // else all of them stop by themselves
  }

  std::vector<pid_t> children_;
  int result_ = 0;
};

/// Passes signals on to the ranks until the last one has ended; the exit code.
int wait_for(Ranks& ranks) {
  sigset_t heard = stop_signals();
  sigaddset(&heard, SIGCHLD);
  while (ranks.reap()) {
    const int signal = sigwaitinfo(&heard, nullptr);
    if (signal < 0 || signal == SIGCHLD) continue;
    request_stop(signal);
    ranks.tell(signal);
  }
  return ranks.result() != 0 && stopping() ? stopped_exit_code() : ranks.result();
}

int run_processes(const profile::RunSpec& spec, std::int64_t world) {
  void* shared = mmap(nullptr, static_cast<std::size_t>(world) * sizeof(std::int64_t),
                      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw UserError("no shared memory for the ranks' step numbers");
  steps = static_cast<std::int64_t*>(shared);
  std::fflush(nullptr);
  Rendezvous where;
  where.world = world;
  reserve_port(where);
  where.launcher = "measure --collectives " + spec.collectives;
  sigset_t child_ends, held;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child_ends, &held);  // before the first of them can end
  Ranks ranks;
  const std::int64_t rank = ranks.start(world);
  if (rank >= 0) {
    pthread_sigmask(SIG_SETMASK, &held, nullptr);
    own_rank = where.rank = where.local_rank = rank;
    if (rank != 0) close(where.listening);
    const int code = run_here(spec, where);
    std::fflush(nullptr);
    _exit(code);
  }
  close(where.listening);
  return wait_for(ranks);
}

}  // namespace

int launch(const profile::RunSpec& spec) {
  hold_stop_signals();
  const Rendezvous where = rendezvous_from_environment();
  const std::string& kind = spec.collectives;
  if (kind == "nccl") require_nccl();
  if (where.world > 1 || (kind != "procs" && kind != "nccl")) return run_here(spec, where);
  std::int64_t world = 0;
  for (const OptionList& options : spec.configs) {
    const std::int64_t wanted = resolve_options(options).layout.world;
    if (world != 0 && world != wanted)
      throw UserError("--collectives " + kind + ": every configuration must have the same --world");
    world = wanted;
  }
  if (world < 2) throw UserError("--collectives " + kind + " needs --world 2 or more");
  return run_processes(spec, world);
}

}  // namespace ac_advisor::trainer
