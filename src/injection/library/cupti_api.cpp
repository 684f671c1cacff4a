#include "injection/library/cupti_api.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "ac_advisor/trace/injection.hpp"
#include "injection/cupti/paths.hpp"

namespace ac_advisor::injection {
namespace {

// The layouts that activity.cpp reads are those of CUDA 12.0 to 13; 13 counts otherwise.
constexpr std::uint32_t oldest = 18, first_of_13 = 130000, first_of_14 = 140000;

int remember_cupti(dl_phdr_info* info, std::size_t, void* found) {
  const char* const name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (std::strstr(name, "libcupti.so") == nullptr) return 0;
  *static_cast<std::string*>(found) = name;
  return 1;
}

std::string loaded_cupti() {
  std::string path;
  dl_iterate_phdr(remember_cupti, &path);
  return path;
}

/// CUDA version of the driver, which has called this library and so is loaded; 0: not told.
int driver_version() {
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (cuda == nullptr) return 0;
  auto* const get = reinterpret_cast<int (*)(int*)>(dlsym(cuda, "cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) version = 0;
  dlclose(cuda);
  return version;
}

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& error) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && error.empty()) error = std::string(name) + " is missing in it";
}

CuptiApi open(const std::string& path) {
  CuptiApi api;
  api.path = path;
  // Never closed: CUPTI has threads of its own.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    api.error = why == nullptr ? "does not load" : why;
    return api;
  }
  find(library, "cuptiGetVersion", api.get_version, api.error);
  find(library, "cuptiGetResultString", api.get_result_string, api.error);
  find(library, "cuptiSubscribe", api.subscribe, api.error);
  find(library, "cuptiEnableCallback", api.enable_callback, api.error);
  find(library, "cuptiGetCallbackName", api.get_callback_name, api.error);
  find(library, "cuptiActivityRegisterCallbacks", api.register_callbacks, api.error);
  find(library, "cuptiActivityEnable", api.enable, api.error);
  find(library, "cuptiActivityFlushAll", api.flush_all, api.error);
  find(library, "cuptiActivityGetNextRecord", api.get_next_record, api.error);
  find(library, "cuptiActivityGetNumDroppedRecords", api.get_dropped, api.error);
  std::string optional;
  find(library, "cuptiActivityFlushPeriod", api.flush_period, optional);
  if (!api.error.empty()) return api;
  if (api.get_version(&api.version) != CUPTI_SUCCESS) api.error = "does not tell its version";
  if (api.error.empty() && (api.version < oldest || api.version >= first_of_14))
    api.error = "its API version " + std::to_string(api.version) +
                " is not one that this library reads (those of CUDA 12 and 13)";
  return api;
}

}  // namespace

CuptiApi load_cupti() {
  if (const std::string path = loaded_cupti(); !path.empty()) return open(path);
  std::vector<std::string> paths;
  if (const char* wanted = std::getenv(trace::cupti_variable); wanted != nullptr && *wanted != 0)
    paths.emplace_back(wanted);
  for (const char* path : trace::cupti_libraries) paths.emplace_back(path);
  const int driver = driver_version();
  CuptiApi none;
  for (const std::string& path : paths) {
    CuptiApi api = open(path);
    if (api.error.empty() && driver > 0 && driver < 13000 && api.version >= first_of_13)
      api.error = "is of CUDA 13, newer than the driver";
    if (api.error.empty()) return api;
    none.error += (none.error.empty() ? "" : "; ") + path + ": " + api.error;
  }
  return none;
}

}  // namespace ac_advisor::injection
