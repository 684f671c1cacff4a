#include "trainer/launch.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "trainer/calibrate/run_calibration.hpp"
#include "trainer/run.hpp"

namespace ac_advisor::trainer {
namespace {

/// The step that each rank is in, in memory that launcher and ranks share.
std::int64_t* steps = nullptr;
std::int64_t own_rank = 0;

void on_signal(int) { request_stop(); }
void watch_step(std::int64_t step) {
  if (steps != nullptr) steps[own_rank] = step + 1;
}

void write_whole(const std::string& path, const std::string& text) {
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
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
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

int run_processes(const profile::RunSpec& spec, std::int64_t world) {
  void* shared = mmap(nullptr, static_cast<std::size_t>(world) * sizeof(std::int64_t),
                      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw UserError("no shared memory for the ranks' step numbers");
  steps = static_cast<std::int64_t*>(shared);
  std::signal(SIGINT, SIG_IGN);  // the ranks hear it too, and end by themselves
  std::fflush(nullptr);
  Rendezvous where;
  where.world = world;
  reserve_port(where);
  where.launcher = "measure --collectives " + spec.collectives;
  std::vector<pid_t> children;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw UserError(std::string("cannot start a rank: ") + std::strerror(errno));
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      own_rank = where.rank = where.local_rank = rank;
      if (rank != 0) close(where.listening);
      const int code = run_here(spec, where);
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
  }
  close(where.listening);
  int result = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    if (child < 0) break;
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (good || result != 0) continue;
    std::size_t rank = 0;
    while (rank < children.size() && children[rank] != child) ++rank;
    result = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    if (WIFSIGNALED(status) || result == 70) {
      result = 3;
      std::fprintf(stderr, "ac-trainer: rank %zu %s in step %lld; the other ranks are ended\n",
                   rank, how_it_ended(status).c_str(), static_cast<long long>(steps[rank]));
    }
    if (result == 130) continue;  // all of them stop by themselves
    for (const pid_t other : children)
      if (other != child) kill(other, SIGKILL);
  }
  return result;
}

}  // namespace

int launch(const profile::RunSpec& spec) {
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
