// Stands for libcupti where there is no driver: what a test program "launches" through
// fake_launch comes back as callbacks and activity records. FAKE_CUPTI chooses how it misbehaves:
// "busy" (another subscriber), "old" (CUDA 11), "no-kernels" (kernels cannot be recorded).
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t record_bytes = 512;
constexpr const char* runtime_names[] = {nullptr, "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020",
                                         "cudaGraphLaunch_v10000", "cudaGetDevice_v3020"};
constexpr const char* driver_names[] = {nullptr, "cuLaunchKernel", "cuMemAlloc_v2"};

struct Record {
  alignas(8) unsigned char bytes[record_bytes] = {};
};

std::vector<Record> records;
CUpti_CallbackFunc callback = nullptr;
CUpti_BuffersCallbackRequestFunc requested = nullptr;
CUpti_BuffersCallbackCompleteFunc completed = nullptr;
std::uint32_t last_correlation = 0;
bool enabled[2][8] = {};
std::size_t position = 0;

bool mode(const char* name) {
  const char* const value = std::getenv("FAKE_CUPTI");
  return value != nullptr && std::strcmp(value, name) == 0;
}

template <typename Activity>
void add(const Activity& activity) {
  static_assert(sizeof(Activity) <= record_bytes);
  std::memcpy(records.emplace_back().bytes, &activity, sizeof activity);
}

void call_back(CUpti_CallbackDomain domain, CUpti_CallbackId id, CUpti_ApiCallbackSite site) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (callback == nullptr || !enabled[runtime ? 1 : 0][id]) return;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.correlationId = last_correlation;
  data.functionName = runtime ? runtime_names[id] : driver_names[id];
  callback(nullptr, domain, id, &data);
}

void call(CUpti_CallbackId runtime) {
  ++last_correlation;
  call_back(CUPTI_CB_DOMAIN_RUNTIME_API, runtime, CUPTI_API_ENTER);
  call_back(CUPTI_CB_DOMAIN_DRIVER_API, 1, CUPTI_API_ENTER);
  call_back(CUPTI_CB_DOMAIN_DRIVER_API, 1, CUPTI_API_EXIT);
  call_back(CUPTI_CB_DOMAIN_RUNTIME_API, runtime, CUPTI_API_EXIT);
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT void fake_launch(const char* kernel, std::uint64_t start, std::uint64_t end) {
  call(1);
  CUpti_ActivityKernel9 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = kernel;
  record.start = start;
  record.end = end;
  record.correlationId = last_correlation;
  if (!mode("no-kernels")) add(record);
}

FAKE_EXPORT void fake_copy(std::uint64_t start, std::uint64_t end, std::uint64_t bytes) {
  call(2);
  CUpti_ActivityMemcpy5 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  record.start = start;
  record.end = end;
  record.bytes = bytes;
  record.correlationId = last_correlation;
  add(record);
}

FAKE_EXPORT void fake_allocate(std::uint64_t address, std::uint64_t bytes) {
  CUpti_ActivityMemory3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  record.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.address = address;
  record.bytes = bytes;
  add(record);
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiGetVersion(std::uint32_t* version) {
  *version = mode("old") ? 17 : 26;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
              : "CUPTI_ERROR_OTHER";
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                                                CUpti_CallbackFunc function, void*) {
  if (mode("busy")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  callback = function;
  *subscriber = nullptr;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id,
                                                      const char** name) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  const std::size_t count = runtime ? std::size(runtime_names) : std::size(driver_names);
  if (id >= count) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = runtime ? runtime_names[id] : driver_names[id];
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle,
                                                     CUpti_CallbackDomain domain,
                                                     CUpti_CallbackId id) {
  enabled[domain == CUPTI_CB_DOMAIN_RUNTIME_API ? 1 : 0][id] = enable != 0;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  requested = request;
  completed = complete;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && mode("no-kernels"))
    return CUPTI_ERROR_NOT_COMPATIBLE;
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
    CUpti_ActivityDevice4 device{};
    device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    device.name = "NVIDIA Fake";
    device.globalMemorySize = 1024;
    device.globalMemoryBandwidth = 2'000'000;  // kilobytes per second
    add(device);
  }
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t) {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, most = 0;
  requested(&buffer, &size, &most);
  const std::size_t bytes = records.size() * record_bytes;
  if (bytes > size) std::abort();
  std::memcpy(buffer, records.data(), bytes);
  records.clear();
  position = 0;
  completed(nullptr, 0, buffer, size, bytes);
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                                            CUpti_Activity** record) {
  if (position == valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer + position);
  position += record_bytes;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t,
                                                                   std::size_t* dropped) {
  *dropped = mode("drops") ? 5 : 0;
  return CUPTI_SUCCESS;
}
