#include "cli/trainer_process.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/run_traced.hpp"
#include "cli/output.hpp"
#include "process/child.hpp"
#include "process/ending_signals.hpp"

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

/// A file without a name, which the trainer inherits: whatever becomes of the two, nothing is left.
class NamelessFile {
 public:
  explicit NamelessFile(const char* what) : descriptor_(::memfd_create(what, 0)) {
    if (descriptor_ < 0)
      throw UserError(std::string("no memory for the trainer's ") + what + ": " +
                      std::strerror(errno));
  }
  ~NamelessFile() { ::close(descriptor_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  /// The same in this process and in its children.
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// What the trainer reads and what it writes.
struct Files {
  NamelessFile run{"run.json"}, result{"result.json"};
};

/// The program that runs the specification, once that is written; empty: `why`.
std::vector<std::string> command_of(profile::RunSpec& spec, const Files& files, std::string& why) {
  const bool cuda = profile::for_gpu(spec);
  const fs::path program = trainer_path(cuda);
  if (::access(program.c_str(), X_OK) != 0) {
    why = program.string() +
          (cuda ? " is not there: it is built where LibTorch and a CUDA 13 toolkit are found"
                : " is not there: it is built where LibTorch is found (./run fetches it)") +
          ", or named by AC_TRAINER";
    return {};
  }
  spec.output = files.result.path();
  std::ofstream(files.run.path(), std::ios::binary) << profile::to_json(spec);
  return {fs::absolute(program).string(), files.run.path()};
}

/// On the emulated device; the exit code.
int run_emulated(const std::vector<std::string>& command, const profile::RunSpec& spec,
                 std::string& why) {
  const std::string gpu = resolve_options(spec.configs.front()).device.gpu;
  const dryrun::Run ran = dryrun::run({command, gpu});
  if (const std::string name = ran.unanswered(); !name.empty())
    why = "ac-trainer-cuda called " + name + ", which the emulated device does not answer";
  else if (const bool by_signal = ran.exit_code > 128; by_signal)
    why = "ac-trainer-cuda was ended by " + ran.ended;
  return why.empty() ? ran.exit_code : 3;
}

/// Runs the specification; the exit code.
int run(profile::RunSpec& spec, const Files& files, std::string& why) {
  const std::vector<std::string> command = command_of(spec, files, why);
  if (command.empty()) return 3;
  if (spec.emulated) return run_emulated(command, spec, why);
  const process::ChildEnd end = process::run_child(command, {}, process::WithoutParent::ends);
  if (end.error != 0) why = command[0] + " cannot be started here: " + std::strerror(end.error);
  if (const int told = process::EndingSignals::first(); told != 0)
    return process::exit_code_of(told);
  if (!end.started) return 3;
  if (WIFEXITED(end.status)) return WEXITSTATUS(end.status);
  why = command[0] + " was ended by " + process::how_it_ended(end.status);
  return 3;
}

std::vector<profile::Profile> read_profiles(const std::string& file) {
  std::vector<profile::Profile> profiles;
  const std::string text = read_saved_file(file);
  if (text.empty()) return profiles;
  for (const auto& item : nlohmann::json::parse(text))
    profiles.push_back(profile::from_json(item.dump(), "ac-trainer's result"));
  return profiles;
}

}  // namespace

std::string run_calibration(profile::RunSpec spec, int& exit_code, std::string& why) {
  const Files files;
  exit_code = run(spec, files, why);
  return exit_code == 0 ? read_saved_file(spec.output) : "";
}

TrainerResult run_trainer(profile::RunSpec spec, std::string& why) {
  const Files files;
  TrainerResult result{run(spec, files, why), {}};
  if (result.exit_code == 0) result.profiles = read_profiles(spec.output);
  return result;
}

trace::TraceFile run_trainer_traced(profile::RunSpec spec, TrainerResult& result,
                                    std::string& why) {
  const Files files;
  spec.instrument = "trace";
  const std::vector<std::string> command = command_of(spec, files, why);
  result.exit_code = 3;
  if (command.empty()) return {};
  trace::TracedRun run = trace::run_traced(command, /*ends_with_caller=*/true);
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
