// A libcupti of CUDA 13 whose range profiler holds its caller to the documented order of calls:
// what comes too early or too late is CUPTI_ERROR_INVALID_OPERATION, as from the real one.
#include <cuda.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum class Stage { off, enabled, sized, image, configured, started, stopped, decoded };

struct Counter {
  double values[4] = {};
};

std::string mode, log;
bool initialized = false;
Stage stage = Stage::off;
bool range_open = false, filtered = false;
int host_objects = 0;
int profiler = 0, host = 0;
std::size_t metrics = 0, most = 0;
Counter next;
std::vector<Counter> counted;
std::vector<std::string> names;
const std::uint8_t* image = nullptr;
constexpr std::uint8_t available = 7, config_byte = 11, image_byte = 13, data_byte = 17;

bool is(const char* wanted) { return mode == wanted; }

CUptiResult note(const char* call, bool in_order) {
  log += std::string(log.empty() ? "" : " ") + call;
  if (!in_order) log += "(OUT OF ORDER)";
  return in_order ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

template <typename Params>
bool sized(const Params* p, std::size_t size) {
  return p->structSize == size && p->pPriv == nullptr;
}
template <typename Params>
bool ours(const Params* p) {
  return reinterpret_cast<const int*>(p->pRangeProfilerObject) == &profiler;
}

}  // namespace

// --- what the tests set and look at
// ----------------------------------------------------------------

FAKE_EXPORT void fake_reset(const char* new_mode) {
  mode = new_mode;
  log.clear();
  counted.clear();
  names.clear();
  initialized = range_open = false;
  stage = Stage::off;
}
FAKE_EXPORT const char* fake_log() { return log.c_str(); }
FAKE_EXPORT int fake_host_objects() { return host_objects; }
/// What the next range will have been counted with.
FAKE_EXPORT void fake_next(double read, double write, double percent, double ns) {
  next = {{read, write, percent, ns}};
}

// --- CUPTI
// -----------------------------------------------------------------------------------------

FAKE_EXPORT CUptiResult CUPTIAPI cuptiGetVersion(std::uint32_t* version) {
  *version = is("old") ? 26 : 130001;
  return CUPTI_SUCCESS;
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : result == CUPTI_ERROR_INVALID_OPERATION     ? "CUPTI_ERROR_INVALID_OPERATION"
          : result == CUPTI_ERROR_HARDWARE_BUSY         ? "CUPTI_ERROR_HARDWARE_BUSY"
                                                        : "CUPTI_ERROR_OTHER";
  return CUPTI_SUCCESS;
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params* p) {
  initialized = true;
  return note("initialize", sized(p, CUpti_Profiler_Initialize_Params_STRUCT_SIZE));
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params* p) {
  constexpr auto yes = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  p->isSupported = is("virtual") ? CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED : yes;
  p->architecture = p->sli = p->confidentialCompute = p->cmp = p->wsl = yes;
  p->vGpu = is("virtual") ? CUPTI_PROFILER_CONFIGURATION_DISABLED : yes;
  return note("supported", initialized && p->api == CUPTI_PROFILER_RANGE_PROFILING &&
                               sized(p, CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE));
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params* p) {
  if (is("denied")) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  p->counterAvailabilityImageSize = 8;
  if (p->pCounterAvailabilityImage != nullptr)
    std::memset(p->pCounterAvailabilityImage, available, 8);
  // May fail while a session is active: asked before.
  return note("availability",
              initialized && p->ctx != nullptr && stage == Stage::off &&
                  sized(p, CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE));
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* p) {
  p->pChipName = "GH100";
  return note("chip", initialized && sized(p, CUpti_Device_GetChipName_Params_STRUCT_SIZE));
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* p) {
  if (is("unknown-chip")) return CUPTI_ERROR_INVALID_CHIP_NAME;
  p->pHostObject = reinterpret_cast<CUpti_Profiler_Host_Object*>(&host);
  filtered = p->pCounterAvailabilityImage != nullptr;
  ++host_objects;
  return note("host", std::strcmp(p->pChipName, "GH100") == 0 &&
                          (p->pCounterAvailabilityImage == nullptr ||
                           p->pCounterAvailabilityImage[0] == available) &&
                          p->profilerType == CUPTI_PROFILER_TYPE_RANGE_PROFILER &&
                          sized(p, CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE));
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* p) {
  --host_objects;
  return note("no-host", sized(p, CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE));
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* p) {
  if (is("unavailable") && filtered) return CUPTI_ERROR_INVALID_PARAMETER;
  metrics = p->numMetrics;
  return note("metrics", host_objects == 1 &&
                             sized(p, CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE));
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* p) {
  p->configImageSize = 16;
  return note("config-size", metrics > 0);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* p) {
  std::memset(p->pConfigImage, config_byte, p->configImageSize);
  return note("config", metrics > 0 && p->configImageSize == 16);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* p) {
  const bool many = is("two-passes-always") || (is("two-passes") && metrics > 2);
  p->numOfPasses = many ? 2 : 1;
  return note("passes", p->pConfigImage[0] == config_byte);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* p) {
  if (is("no-value")) return CUPTI_ERROR_UNKNOWN;
  const bool fine = stage == Stage::decoded && p->pCounterDataImage == image &&
                    image[0] == data_byte && p->rangeIndex < counted.size() &&
                    p->numMetrics == metrics && host_objects == 1;
  // Last pushed first: the image's order is not promised.
  if (fine)
    std::copy_n(counted[counted.size() - 1 - p->rangeIndex].values, metrics, p->pMetricValues);
  return note("evaluate", fine);
}

FAKE_EXPORT CUptiResult CUPTIAPI cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* p) {
  if (is("busy")) return CUPTI_ERROR_HARDWARE_BUSY;
  const bool fine = initialized && stage == Stage::off && p->ctx != nullptr &&
                    sized(p, CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
  p->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object*>(&profiler);
  stage = Stage::enabled;
  counted.clear();
  names.clear();
  return note("enable", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params* p) {
  const bool fine = stage != Stage::off && stage != Stage::started && ours(p);
  stage = Stage::off;
  return note("disable", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params* p) {
  const bool fine = stage == Stage::enabled && ours(p) && p->numMetrics == metrics &&
                    p->maxNumRangeTreeNodes >= p->maxNumOfRanges;
  p->counterDataSize = 32;
  most = p->maxNumOfRanges;
  stage = Stage::sized;
  return note("data-size", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params* p) {
  const bool fine = stage == Stage::sized && ours(p) && p->counterDataSize == 32;
  std::memset(p->pCounterData, image_byte, p->counterDataSize);
  stage = Stage::image;
  return note("data", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params* p) {
  const bool fine = stage == Stage::image && ours(p) && p->pConfig[0] == config_byte &&
                    p->pCounterDataImage[0] == image_byte && p->range == CUPTI_UserRange &&
                    p->replayMode == CUPTI_UserReplay && p->maxRangesPerPass == most &&
                    p->numNestingLevels == 1 && p->minNestingLevel == 1 &&
                    p->targetNestingLevel == 1 && p->passIndex == 0 &&
                    sized(p, CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
  image = p->pCounterDataImage;
  stage = Stage::configured;
  return note("set-config", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params* p) {
  if (is("denied-at-start")) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  const bool fine = stage == Stage::configured && ours(p);
  stage = Stage::started;
  return note("start", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params* p) {
  const bool fine = stage == Stage::started && !range_open && ours(p) && names.size() < most;
  range_open = true;
  names.emplace_back(p->pRangeName);
  counted.push_back(next);
  return note("push",
              fine && std::set<std::string>(names.begin(), names.end()).size() == names.size());
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params* p) {
  const bool fine = stage == Stage::started && range_open && ours(p);
  range_open = false;
  return note("pop", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* p) {
  const bool fine = stage == Stage::started && !range_open && ours(p);
  p->isAllPassSubmitted = is("again") ? 0 : 1;
  stage = Stage::stopped;
  return note("stop", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params* p) {
  if (is("decode")) return CUPTI_ERROR_UNKNOWN;
  const bool fine = stage == Stage::stopped && ours(p);
  p->numOfRangeDropped = is("drops") ? 3 : 0;
  stage = Stage::decoded;
  const_cast<std::uint8_t*>(image)[0] = data_byte;
  return note("decode", fine);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params* p) {
  p->numTotalRanges = counted.size() - (is("lost") ? 1 : 0);
  return note("info", stage == Stage::decoded && p->pCounterDataImage[0] == data_byte);
}
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiRangeProfilerCounterDataGetRangeInfo(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params* p) {
  const bool fine = stage == Stage::decoded && p->rangeIndex < names.size();
  if (fine) p->rangeName = names[names.size() - 1 - p->rangeIndex].c_str();
  return note("range", fine);
}
