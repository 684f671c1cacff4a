#pragma once

#include <cupti.h>

#include <cstdint>
#include <string>

namespace ac_advisor::injection {

/// The functions of libcupti that are used, found at run time: a program built for CUDA 12 brings
/// its own, and two different ones in a process do not work together.
struct CuptiApi {
  decltype(&::cuptiGetVersion) get_version = nullptr;
  decltype(&::cuptiGetResultString) get_result_string = nullptr;
  decltype(&::cuptiSubscribe) subscribe = nullptr;
  decltype(&::cuptiEnableCallback) enable_callback = nullptr;
  decltype(&::cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&::cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  /// CUPTI 11.1 and later; nullptr: records come when buffers are full.
  decltype(&::cuptiActivityFlushPeriod) flush_period = nullptr;

  std::string path;
  std::uint32_t version = 0;
  std::string error;  ///< empty: all of it is there
};

/// The libcupti that the process has loaded; else the first that loads of AC_ADVISOR_CUPTI, the one
/// of the build, libcupti.so.13 and libcupti.so.12, leaving out those newer than the driver.
[[nodiscard]] CuptiApi load_cupti();

}  // namespace ac_advisor::injection
