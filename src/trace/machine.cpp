#include "ac_advisor/trace/machine.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trace/nvml.hpp"
#include "trace/shared_library.hpp"

namespace ac_advisor::trace {
namespace {

namespace fs = std::filesystem;

constexpr const char* variables[] = {"CUDA_VISIBLE_DEVICES",   "CUDA_INJECTION64_PATH",
                                     "NVTX_INJECTION64_PATH",  "NVIDIA_DRIVER_CAPABILITIES",
                                     "NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD"};

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The text after `key` to the end of its line.
std::optional<std::string> line_after(const std::string& text, const std::string& key) {
  const auto at = text.find(key);
  if (at == std::string::npos) return std::nullopt;
  std::string rest = text.substr(at + key.size(), text.find('\n', at) - at - key.size());
  const auto begin = rest.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : rest.substr(begin);
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun …": its first word with a point.
std::string module_version(const std::string& text) {
  std::istringstream words(line_after(text, "NVRM version:").value_or(""));
  for (std::string word; words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
        word.find('.') != std::string::npos)
      return word;
  return "";
}

/// CAP_SYS_ADMIN is bit 21 of the effective set.
bool has_admin(const std::string& status) {
  const std::string hex = line_after(status, "CapEff:").value_or("");
  std::uint64_t set = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), set, 16);
  return (set >> 21U & 1U) != 0;
}

void look_at_driver(Machine& machine) {
  const SharedLibrary cuda("libcuda.so.1");
  int version = 0;
  if (auto* const get = cuda.function<int(int*)>("cuDriverGetVersion");
      get != nullptr && get(&version) == 0)
    machine.driver_cuda = version;
  machine.libcuda_error = cuda.error();
  const Nvml nvml;
  machine.nvml = nvml.error().empty();
  machine.nvml_error = nvml.error();
  machine.gpus = nvml.gpus();
}

}  // namespace

Machine look_at_files(const std::string& root) {
  Machine machine;
  std::error_code none;
  machine.kernel_module = module_version(text_of(root + "/proc/driver/nvidia/version"));
  if (const auto only =
          line_after(text_of(root + "/proc/driver/nvidia/params"), "RmProfilingAdminOnly:"))
    machine.counters_for_admin_only = *only != "0";
  machine.admin = has_admin(text_of(root + "/proc/self/status"));
  for (const auto& entry : fs::directory_iterator(root + "/dev", none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 &&
        std::all_of(name.begin() + 6, name.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; }))
      machine.device_files.push_back("/dev/" + name);
  }
  std::sort(machine.device_files.begin(), machine.device_files.end());
  machine.container =
      fs::exists(root + "/.dockerenv", none) || fs::exists(root + "/run/.containerenv", none);
  machine.wsl = fs::exists(root + "/dev/dxg", none);
  return machine;
}

Machine look_at_machine() {
  Machine machine = look_at_files();
  for (const char* variable : variables)
    if (const char* value = std::getenv(variable)) machine.environment[variable] = value;
  look_at_driver(machine);
  machine.injection = injection();
  for (const std::string& path : machine.injection.cupti_libraries) {
    const SharedLibrary cupti(path);
    CuptiLibrary& found = machine.cupti.emplace_back(CuptiLibrary{path, 0, cupti.error()});
    std::uint32_t version = 0;
    if (auto* const get = cupti.function<int(std::uint32_t*)>("cuptiGetVersion");
        get != nullptr && get(&version) == 0)
      found.version = version;
    found.counts = cupti.function<int(void*)>("cuptiRangeProfilerEnable") != nullptr;
    if (found.version > 0)
      found.nvperf_error =
          SharedLibrary(path.substr(0, path.find_last_of('/') + 1) + "libnvperf_host.so").error();
  }
  return machine;
}

}  // namespace ac_advisor::trace
