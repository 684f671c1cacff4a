#include "trainer/counters/cupti/api.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ac_advisor/trace/injection.hpp"
#include "injection/cupti/paths.hpp"

namespace ac_advisor::trainer::counters {
namespace {

// The parameter structures are those of CUDA 13's headers; CUPTI reads the older ones of a major.
constexpr std::uint32_t oldest = 130000;

int remember_cupti(dl_phdr_info* info, std::size_t, void* found) {
  const char* const name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (std::strstr(name, "libcupti.so") == nullptr) return 0;
  *static_cast<std::string*>(found) = name;
  return 1;
}

std::string dl_error() {
  const char* const why = dlerror();
  return why == nullptr ? "does not load" : why;
}

/// Finds functions by name; the first that is missing is remembered.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}
  template <typename Function>
  void operator()(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing.empty()) missing = std::string(name) + " is missing in it";
  }
  std::string missing;

 private:
  void* library_;
};

std::string find_all(void* library, Api& api) {
  Finder find(library);
  find("cuptiGetVersion", api.get_version);
  find("cuptiGetResultString", api.get_result_string);
  if (!find.missing.empty()) return find.missing;
  // First of all: an older one lacks more, and the version says why.
  std::uint32_t version = 0;
  if (api.get_version(&version) != CUPTI_SUCCESS || version < oldest)
    return "API version " + std::to_string(version) +
           " is older than CUDA 13's (130000), whose range profiler is needed";
  find("cuptiProfilerInitialize", api.initialize);
  find("cuptiProfilerDeviceSupported", api.device_supported);
  find("cuptiProfilerGetCounterAvailability", api.get_availability);
  find("cuptiDeviceGetChipName", api.get_chip_name);
  find("cuptiProfilerHostInitialize", api.host_initialize);
  find("cuptiProfilerHostDeinitialize", api.host_deinitialize);
  find("cuptiProfilerHostConfigAddMetrics", api.add_metrics);
  find("cuptiProfilerHostGetConfigImageSize", api.get_config_size);
  find("cuptiProfilerHostGetConfigImage", api.get_config);
  find("cuptiProfilerHostGetNumOfPasses", api.get_passes);
  find("cuptiProfilerHostEvaluateToGpuValues", api.evaluate);
  find("cuptiRangeProfilerEnable", api.enable);
  find("cuptiRangeProfilerDisable", api.disable);
  find("cuptiRangeProfilerGetCounterDataSize", api.get_data_size);
  find("cuptiRangeProfilerCounterDataImageInitialize", api.initialize_data);
  find("cuptiRangeProfilerSetConfig", api.set_config);
  find("cuptiRangeProfilerStart", api.start);
  find("cuptiRangeProfilerStop", api.stop);
  find("cuptiRangeProfilerPushRange", api.push);
  find("cuptiRangeProfilerPopRange", api.pop);
  find("cuptiRangeProfilerDecodeData", api.decode);
  find("cuptiRangeProfilerGetCounterDataInfo", api.get_data_info);
  find("cuptiRangeProfilerCounterDataGetRangeInfo", api.get_range_info);
  return find.missing;
}

/// libcupti opens libnvperf_host by its name: the one beside it must be loaded by then.
std::string load_nvperf(const std::string& cupti) {
  const auto slash = cupti.rfind('/');
  const std::string path = cupti.substr(0, slash == std::string::npos ? 0 : slash + 1) +
                           "libnvperf_host.so";  // toolkits and packages have both in one folder
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return "";
  return "libnvperf_host.so does not load (" + dl_error() + ")";
}

/// Never closed: CUPTI has threads of its own.
std::string open(const std::string& path, Api& api) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dl_error();
  const std::string missing = find_all(library, api);
  return missing.empty() ? load_nvperf(path) : missing;
}

}  // namespace

std::string load(Api& api) {
  std::vector<std::string> paths;
  if (const char* wanted = std::getenv(trace::cupti_variable); wanted != nullptr && *wanted != 0) {
    paths.emplace_back(wanted);
  } else {
    std::string loaded;
    dl_iterate_phdr(remember_cupti, &loaded);
    if (!loaded.empty()) paths.push_back(loaded);
    for (const char* path : trace::cupti_libraries) paths.emplace_back(path);
  }
  std::string why_not;
  for (const std::string& path : paths) {
    const std::string error = open(path, api);
    if (error.empty()) return "";
    why_not += (why_not.empty() ? "" : "; ") + path + ": " + error;
  }
  return "no CUPTI that counts: " + why_not +
         ". Install NVIDIA's package cuda-cupti-13-0, or pip install nvidia-cuda-cupti, or set " +
         trace::cupti_variable + " to its libcupti.so.13";
}

Current current_context() {
  Current current;
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (cuda == nullptr) {
    current.why_not = "this process has not loaded libcuda.so.1: nothing of it runs on a GPU";
    return current;
  }
  const auto get_context =
      reinterpret_cast<CUresult (*)(CUcontext*)>(dlsym(cuda, "cuCtxGetCurrent"));
  const auto get_device = reinterpret_cast<CUresult (*)(CUdevice*)>(dlsym(cuda, "cuCtxGetDevice"));
  if (get_context == nullptr || get_context(&current.context) != CUDA_SUCCESS ||
      current.context == nullptr || get_device == nullptr ||
      get_device(&current.device) != CUDA_SUCCESS)
    current.why_not =
        "this thread has no CUDA context: the counters are opened after its first work";
  dlclose(cuda);
  return current;
}

std::string reason(const Api& api, const char* function, CUptiResult result) {
  struct WayOut {
    CUptiResult result;
    const char* text;
  };
  static constexpr WayOut ways_out[] = {
      {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
       "counters need CAP_SYS_ADMIN (sudo; docker run --cap-add SYS_ADMIN), or the driver option "
       "NVreg_RestrictProfilingToAdminUsers=0 (as root: options nvidia "
       "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d/nvidia.conf, update-initramfs -u, "
       "reboot)"},
      {CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES,
       "the vGPU's host must allow counters (NVIDIA vGPU's plugin parameter enable_profiling=1), "
       "or "
       "pass the GPU through"},
      {CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED,
       "a virtualised GPU has no counters: a passed-through one has"},
      {CUPTI_ERROR_HARDWARE_BUSY,
       "another profiler has the counters (Nsight, DCGM's profiling metrics): end it; for DCGM, "
       "dcgmi profiling --pause"},
      {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
       "another tool (torch.profiler, Nsight, ac-advisor trace) has CUPTI: run without it"},
      {CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED,
       "this process uses CUPTI's older profiling API: run without it"},
      {CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED,
       "confidential computing hides counters: run with it off"},
      {CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED,
       "a MIG slice that shares its memory has no counters: use a slice of its own, or the whole "
       "GPU"},
      {CUPTI_ERROR_INVALID_CHIP_NAME, "this CUPTI does not know the device: a newer one may"},
      {CUPTI_ERROR_OUT_OF_MEMORY,
       "the counters' buffers need device memory: leave some free (a smaller batch)"},
  };
  const char* name = nullptr;
  api.get_result_string(result, &name);
  std::string text = std::string(function) + ": " +
                     (name == nullptr ? "error " + std::to_string(result) : std::string(name));
  for (const WayOut& way : ways_out)
    if (way.result == result) text += std::string("; ") + way.text;
  return text;
}

}  // namespace ac_advisor::trainer::counters
