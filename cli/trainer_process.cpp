#include "cli/trainer_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/run_traced.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

namespace fs = std::filesystem;

/// AC_TRAINER, or beside this program; GPUs have a trainer of their own.
fs::path trainer_path(bool cuda) {
  if (const char* given = std::getenv("AC_TRAINER"); given != nullptr && *given != '\0')
    return given;
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path() /
         (cuda ? "ac-trainer-cuda" : "ac-trainer");
}

/// A folder of this run's own, removed at its end.
class Folder {
 public:
  Folder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "ac-advisor.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw UserError(name + ": cannot be made: " + std::strerror(errno));
    path_ = name;
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// The program that runs the specification, once that is written into `folder`; empty: `why`.
std::vector<std::string> command_of(profile::RunSpec& spec, const Folder& folder,
                                    std::string& why) {
  const bool cuda = profile::for_gpu(spec);
  const fs::path program = trainer_path(cuda);
  if (::access(program.c_str(), X_OK) != 0) {
    why = program.string() +
          (cuda ? " is not there: it is built where LibTorch and a CUDA 13 toolkit are found"
                : " is not there: it is built where LibTorch is found (./run fetches it)") +
          ", or named by AC_TRAINER";
    return {};
  }
  spec.output = folder.file("result.json");
  const std::string file = folder.file("run.json");
  write_output(profile::to_json(spec), file);
  return {program.string(), file};
}

/// Runs the specification, whose output goes into `folder`; the exit code.
int run(profile::RunSpec& spec, const Folder& folder, std::string& why) {
  const std::vector<std::string> command = command_of(spec, folder, why);
  if (command.empty()) return 3;
  const std::string& name = command[0];
  const char* const arguments[] = {name.c_str(), command[1].c_str(), nullptr};
  // The trainer hears Ctrl-C itself and ends in order; this process waits for it.
  const auto before = std::signal(SIGINT, SIG_IGN);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);
    ::execv(name.c_str(), const_cast<char* const*>(arguments));
    ::_exit(127);
  }
  int status = 0;
  pid_t waited = -1;
  while (child > 0 && (waited = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, before);
  if (waited < 0) {
    why = std::string("cannot start ") + name + ": " + std::strerror(errno);
    return 3;
  }
  if (!WIFEXITED(status)) {
    why = name + " was killed by signal " + std::to_string(WTERMSIG(status));
    return 3;
  }
  if (WEXITSTATUS(status) == 127) why = name + " cannot be started here";
  return WEXITSTATUS(status);
}

std::vector<profile::Profile> read_profiles(const std::string& file) {
  std::vector<profile::Profile> profiles;
  if (!fs::exists(file)) return profiles;
  for (const auto& item : nlohmann::json::parse(read_saved_file(file)))
    profiles.push_back(profile::from_json(item.dump(), "ac-trainer's result"));
  return profiles;
}

}  // namespace

std::string run_calibration(profile::RunSpec spec, int& exit_code, std::string& why) {
  const Folder folder;
  exit_code = run(spec, folder, why);
  return exit_code == 0 ? read_saved_file(spec.output) : "";
}

TrainerResult run_trainer(profile::RunSpec spec, std::string& why) {
  const Folder folder;
  TrainerResult result{run(spec, folder, why), {}};
  if (result.exit_code == 0) result.profiles = read_profiles(spec.output);
  return result;
}

trace::TraceFile run_trainer_traced(profile::RunSpec spec, TrainerResult& result,
                                    std::string& why) {
  const Folder folder;
  spec.instrument = "trace";
  const std::vector<std::string> command = command_of(spec, folder, why);
  result.exit_code = 3;
  if (command.empty()) return {};
  trace::TracedRun run = trace::run_traced(command);
  result.exit_code = static_cast<int>(run.file.exit_code.value_or(3));
  if (result.exit_code != 0) {
    why = "the traced run ended with " + run.ended;
    return {};
  }
  for (const std::string& lack : run.lacks) why += (why.empty() ? "" : "; ") + lack;
  result.profiles = read_profiles(spec.output);
  return std::move(run.file);
}

}  // namespace ac_advisor::cli
