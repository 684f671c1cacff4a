// Of nvml.h (NVIDIA Management Library API reference): nvmlInit_v2, nvmlDeviceGetCount_v2,
// nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetName, nvmlDeviceGetMemoryInfo. 0 is success.
#include "trace/nvml.hpp"

#include <algorithm>

namespace ac_advisor::trace {
namespace {

struct MemoryInfo {  // nvmlMemory_t
  unsigned long long total = 0, free = 0, used = 0;
};

}  // namespace

Nvml::Nvml() : library_("libnvidia-ml.so.1") {
  if (!library_.loaded()) {
    error_ = library_.error();
    return;
  }
  auto* const init = library_.function<int()>("nvmlInit_v2");
  auto* const describe = library_.function<const char*(int)>("nvmlErrorString");
  if (const int code = init == nullptr ? -1 : init(); code != 0) {
    error_ = code > 0 && describe != nullptr ? describe(code) : "nvmlInit_v2 is missing";
    return;
  }
  auto* const count = library_.function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  auto* const handle = library_.function<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
  unsigned n = 0;
  if (count == nullptr || handle == nullptr || count(&n) != 0) return;
  for (unsigned i = 0; i < n; ++i)
    if (void* device = nullptr; handle(i, &device) == 0) devices_.push_back(device);
}

Nvml::~Nvml() {
  if (auto* const shutdown = library_.function<int()>("nvmlShutdown");
      shutdown != nullptr && error_.empty())
    shutdown();
}

std::vector<Gpu> Nvml::gpus() const {
  auto* const name = library_.function<int(void*, char*, unsigned)>("nvmlDeviceGetName");
  auto* const memory = library_.function<int(void*, MemoryInfo*)>("nvmlDeviceGetMemoryInfo");
  std::vector<Gpu> gpus;
  for (void* device : devices_) {
    Gpu& gpu = gpus.emplace_back();
    char text[96] = "";
    MemoryInfo info;
    if (name != nullptr && name(device, text, sizeof text) == 0) gpu.name = text;
    if (memory != nullptr && memory(device, &info) == 0)
      gpu.memory_bytes = static_cast<std::int64_t>(info.total);
  }
  return gpus;
}

std::int64_t Nvml::most_used_bytes() const {
  auto* const memory = library_.function<int(void*, MemoryInfo*)>("nvmlDeviceGetMemoryInfo");
  std::int64_t most = -1;
  for (void* device : devices_)
    if (MemoryInfo info; memory != nullptr && memory(device, &info) == 0)
      most = std::max(most, static_cast<std::int64_t>(info.used));
  return most;
}

}  // namespace ac_advisor::trace
