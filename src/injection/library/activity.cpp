#include "injection/library/activity.hpp"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <unordered_map>

namespace ac_advisor::injection {
namespace {

using trace::DeviceWork;

// CUPTI appends fields from version to version, and what is read here has not moved: the newest
// layout reads the records of CUDA 12 (and of 11.8) too.
static_assert(offsetof(CUpti_ActivityKernel9, name) == offsetof(CUpti_ActivityKernel8, name));
static_assert(offsetof(CUpti_ActivityKernel9, graphId) == 156);
static_assert(offsetof(CUpti_ActivityMemcpy5, graphId) == 72);
static_assert(offsetof(CUpti_ActivityMemset4, graphId) == 72);
static_assert(offsetof(CUpti_ActivityMemory3, bytes) == 24);

template <typename Record>
const Record& as(const CUpti_Activity& record) {
  return *reinterpret_cast<const Record*>(&record);
}

const char* direction(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "[memcpy host to device]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "[memcpy device to host]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "[memcpy device to device]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "[memcpy peer to peer]";
    default:
      return "[memcpy]";
  }
}

/// A name is at one address as long as its module is loaded; another may come to that address, so
/// the mangled text is the key. Called by one thread at a time.
const std::string& kernel_name(const char* mangled) {
  static constexpr std::size_t most = 8192;
  static auto& names = *new std::unordered_map<std::string, std::string>;
  static const std::string nameless = "[nameless kernel]";
  if (mangled == nullptr) return nameless;
  if (const auto found = names.find(mangled); found != names.end()) return found->second;
  if (names.size() == most) names.clear();
  return names.emplace(mangled, demangled(mangled)).first->second;
}

template <typename Record>
void take_work(const Record& r, DeviceWork::Kind kind, std::string_view name, std::int64_t bytes,
               trace::Recorder& recorder) {
  // 0: the device did not tell the time.
  if (r.start == 0 || r.end < r.start) {
    recorder.dropped(1);
    return;
  }
  recorder.work({kind, name, static_cast<std::int64_t>(r.start), static_cast<std::int64_t>(r.end),
                 r.deviceId, bytes, r.graphId != 0},
                r.correlationId);
}

void take_memory(const CUpti_ActivityMemory3& r, trace::Recorder& recorder) {
  const bool on_device = r.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE ||
                         r.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_ARRAY ||
                         r.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC;
  if (!on_device) return;
  const auto address = static_cast<std::int64_t>(r.address);
  if (r.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION)
    recorder.allocated(address, static_cast<std::int64_t>(r.bytes), r.deviceId);
  else if (r.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE)
    recorder.freed(address);
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

void take(const CUpti_Activity& record, trace::Recorder& recorder) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = as<CUpti_ActivityKernel9>(record);
      return take_work(kernel, DeviceWork::Kind::kernel, kernel_name(kernel.name), 0, recorder);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = as<CUpti_ActivityMemcpy5>(record);
      return take_work(copy, DeviceWork::Kind::copy, direction(copy.copyKind),
                       static_cast<std::int64_t>(copy.bytes), recorder);
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& memset = as<CUpti_ActivityMemset4>(record);
      return take_work(memset, DeviceWork::Kind::memset, "[memset]",
                       static_cast<std::int64_t>(memset.bytes), recorder);
    }
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return take_memory(as<CUpti_ActivityMemory3>(record), recorder);
    case CUPTI_ACTIVITY_KIND_DEVICE: {
      const auto& device = as<CUpti_ActivityDevice4>(record);
      return recorder.device({device.id, device.name == nullptr ? "" : device.name,
                              static_cast<std::int64_t>(device.globalMemorySize),
                              // CUPTI has it in kilobytes per second.
                              static_cast<std::int64_t>(device.globalMemoryBandwidth) * 1000});
    }
    default:
      return;
  }
}

}  // namespace ac_advisor::injection
