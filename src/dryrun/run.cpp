#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "dryrun/paths.hpp"
#include "process/child.hpp"
#include "process/ending_signals.hpp"

namespace ac_advisor::dryrun {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t ranks_of_node = 8;

/// Where the processes leave their records; gone with this.
class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "ac-advisor-dryrun.XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw UserError(path_ + ": " + std::strerror(errno) +
                      "; set TMPDIR to a folder that can be written");
  }
  ~Folder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path path() const { return path_; }
  [[nodiscard]] std::string operator/(const char* name) const {
    return (fs::path(path_) / name).string();
  }

 private:
  std::string path_;
};

/// What a capture may allocate: the step is wanted that the plan then fits to the device, with
/// checkpoints or at a smaller size.
constexpr std::int64_t bytes_of_capture = std::int64_t{1} << 40;

/// "key value" lines, which src/emulator/device.cpp reads.
void write_device(const std::string& path, const simulate::Device& d, bool captures) {
  std::ofstream file(path);
  file << "name " << d.name << "\ntitle " << d.title << "\ntotal_bytes "
       << (captures ? bytes_of_capture : d.usable_bytes) << "\ncontext_bytes " << d.context_bytes
       << "\nl2_bytes " << d.l2_bytes << "\nmultiprocessors " << d.sm_count << "\nmajor "
       << d.compute_capability / 10 << "\nminor " << d.compute_capability % 10 << "\n";
  if (!file.flush()) throw UserError(path + ": cannot be written");
}

std::string before(const std::string& value, const char* variable) {
  const char* old = std::getenv(variable);
  return old == nullptr || *old == '\0' ? value : value + ":" + old;
}

void set_unless_set(process::Environment& all, const char* name, const char* value) {
  if (std::getenv(name) == nullptr) all.emplace_back(name, value);
}

/// torchrun's variables for one rank, where nobody has started the others.
void stand_for_rank(process::Environment& all, const Request& r) {
  const std::string local = std::to_string(r.rank % ranks_of_node);
  all.insert(all.end(), {{"RANK", std::to_string(r.rank)},
                         {"WORLD_SIZE", std::to_string(r.world)},
                         {"LOCAL_RANK", local},
                         {"LOCAL_WORLD_SIZE", std::to_string(std::min(r.world, ranks_of_node))},
                         {"GROUP_RANK", std::to_string(r.rank / ranks_of_node)},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "29500"},
                         // Threads that would ask the store for news of the other ranks.
                         {"TORCH_NCCL_ENABLE_MONITORING", "0"},
                         {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
                         {"TORCH_NCCL_PROPAGATE_ERROR", "0"},
                         {"AC_ADVISOR_EMULATOR_WORLD", std::to_string(r.world)}});
}

std::int64_t devices_of_process(const Request& r) {
  if (r.world > 1) return std::min(r.world, ranks_of_node);
  const char* local = std::getenv("LOCAL_WORLD_SIZE");  // started by torchrun
  return local == nullptr ? 1 : std::max<std::int64_t>(1, std::atoll(local));
}

/// "0,1,2" for three.
std::string all_of(std::int64_t devices) {
  std::string list;
  for (std::int64_t d = 0; d < devices; ++d) list += (d > 0 ? "," : "") + std::to_string(d);
  return list;
}

process::Environment environment_for(const Request& r, const Folder& records) {
  const std::string folder = emulator_folder();
  const std::int64_t devices = devices_of_process(r);
  process::Environment all{
      {"LD_PRELOAD", before(folder + "/" + emulator_file, "LD_PRELOAD")},
      {"LD_LIBRARY_PATH", before(folder, "LD_LIBRARY_PATH")},
      {"PYTHONPATH", before(folder + "/python", "PYTHONPATH")},
      {"TRITON_LIBCUDA_PATH", folder},
      {"CUDA_VISIBLE_DEVICES", all_of(devices)},  // not of the real ones, which are hidden
      {"AC_ADVISOR_EMULATOR_RECORD", records.path().string()},
      {"AC_ADVISOR_EMULATOR_OBJECTS", records.path().string()},
      {"AC_ADVISOR_EMULATOR_DEVICE", records / "device"},
      {"AC_ADVISOR_EMULATOR_DEVICES", std::to_string(devices)},
  };
  // Inductor's pool of processes outlives the program that is told of.
  set_unless_set(all, "TORCHINDUCTOR_COMPILE_THREADS", "1");
  if (r.captures)
    for (auto& [name, value] : all)
      if (name == "PYTHONPATH") value += ":" + folder + "/capture";
  if (r.world > 1) stand_for_rank(all, r);
  return all;
}

std::vector<Record> collect(const Folder& folder) {
  std::vector<Record> records;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    records.push_back(parse_record(text.str(), entry.path().filename().string()));
  }
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.pid < b.pid; });
  return records;
}

}  // namespace

std::string emulator_folder() {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& folder : {program / "emulator", program / installed_emulator})
    if (fs::exists(folder / emulator_file, none))
      return fs::weakly_canonical(folder, none).string();
  throw UserError(
      "dryrun: this build has no emulated device: when it was built, the headers of CUDA 13 were "
      "not found. Install them (PyPI's nvidia-cuda-runtime, or NVIDIA's cuda-cudart-dev-13-0) and "
      "build again");
}

Run run(const Request& request) {
  const simulate::Device& device = simulate::find_device(request.gpu);
  if (!device.cuda) throw UserError("--gpu " + request.gpu + ": dryrun emulates CUDA devices only");
  if (request.rank < 0 || request.rank >= request.world)
    throw UserError("--rank " + std::to_string(request.rank) + ": must be 0 to " +
                    std::to_string(request.world - 1) + ", for --world " +
                    std::to_string(request.world));
  const Folder folder;
  write_device(folder / "device", device, request.captures);
  const process::ChildEnd child =
      process::run_child(request.command, environment_for(request, folder),
                         process::WithoutParent::goes_on, request.log);
  if (!child.started)
    throw UserError(request.command.front() + ": cannot be started: " + std::strerror(child.error) +
                    "; give the command as the shell would find it");
  Run result;
  result.exit_code = WIFEXITED(child.status) ? WEXITSTATUS(child.status)
                                             : process::exit_code_of(WTERMSIG(child.status));
  result.ended = process::how_it_ended(child.status);
  result.records = collect(folder);
  return result;
}

}  // namespace ac_advisor::dryrun
