#pragma once

#include <cuda.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <string>

namespace ac_advisor::trainer::counters {

/// The functions of libcupti that count, and of libcuda that tell the context; opened at run time.
struct Api {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiProfilerInitialize) initialize = nullptr;
  decltype(&cuptiProfilerDeviceSupported) device_supported = nullptr;
  decltype(&cuptiProfilerGetCounterAvailability) get_availability = nullptr;
  decltype(&cuptiDeviceGetChipName) get_chip_name = nullptr;

  decltype(&cuptiProfilerHostInitialize) host_initialize = nullptr;
  decltype(&cuptiProfilerHostDeinitialize) host_deinitialize = nullptr;
  decltype(&cuptiProfilerHostConfigAddMetrics) add_metrics = nullptr;
  decltype(&cuptiProfilerHostGetConfigImageSize) get_config_size = nullptr;
  decltype(&cuptiProfilerHostGetConfigImage) get_config = nullptr;
  decltype(&cuptiProfilerHostGetNumOfPasses) get_passes = nullptr;
  decltype(&cuptiProfilerHostEvaluateToGpuValues) evaluate = nullptr;

  decltype(&cuptiRangeProfilerEnable) enable = nullptr;
  decltype(&cuptiRangeProfilerDisable) disable = nullptr;
  decltype(&cuptiRangeProfilerGetCounterDataSize) get_data_size = nullptr;
  decltype(&cuptiRangeProfilerCounterDataImageInitialize) initialize_data = nullptr;
  decltype(&cuptiRangeProfilerSetConfig) set_config = nullptr;
  decltype(&cuptiRangeProfilerStart) start = nullptr;
  decltype(&cuptiRangeProfilerStop) stop = nullptr;
  decltype(&cuptiRangeProfilerPushRange) push = nullptr;
  decltype(&cuptiRangeProfilerPopRange) pop = nullptr;
  decltype(&cuptiRangeProfilerDecodeData) decode = nullptr;
  decltype(&cuptiRangeProfilerGetCounterDataInfo) get_data_info = nullptr;
  decltype(&cuptiRangeProfilerCounterDataGetRangeInfo) get_range_info = nullptr;
};

/// AC_ADVISOR_CUPTI alone where it is set; else the libcupti that is loaded, else those of the
/// build. Empty: `api` is whole. Otherwise why not, and what would mend it.
[[nodiscard]] std::string load(Api& api);

/// What is current in this thread, asked of the libcuda that the process has loaded.
struct Current {
  CUcontext context = nullptr;
  CUdevice device = 0;
  std::string why_not;  ///< not empty: there is none
};
[[nodiscard]] Current current_context();

/// A parameter structure of CUPTI's, with its size filled in: `params<X>(X_STRUCT_SIZE)`.
template <typename Params>
[[nodiscard]] Params params(std::size_t struct_size) {
  Params p{};
  p.structSize = struct_size;
  return p;
}

/// What CUPTI's `function` said, and the way out where it is known.
[[nodiscard]] std::string reason(const Api& api, const char* function, CUptiResult result);

}  // namespace ac_advisor::trainer::counters
