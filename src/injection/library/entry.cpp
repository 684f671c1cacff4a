// What the CUDA driver and NVTX call when their variables name this library.
#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "injection/library/cupti_session.hpp"
#include "injection/library/nvtx.hpp"
#include "injection/library/process.hpp"

namespace ac_advisor::injection {
namespace {

void at_exit() {
  guarded(0, [] {
    flush_cupti();
    write_trace(true);
    return 0;
  });
}

void write_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(at_exit); });
}

}  // namespace
}  // namespace ac_advisor::injection

#define AC_ADVISOR_EXPORT extern "C" __attribute__((visibility("default")))

/// CUDA_INJECTION64_PATH: cuInit calls this. 1: go on.
AC_ADVISOR_EXPORT int InitializeInjection() {
  using namespace ac_advisor::injection;
  guarded(0, [] {
    start_cupti();
    write_at_exit();
    return 0;
  });
  return 1;
}

/// NVTX_INJECTION64_PATH: NVTX 3 calls this at its first use; 0: it goes on without a tool.
AC_ADVISOR_EXPORT int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
  using namespace ac_advisor::injection;
  return guarded(0, [&] {
    const bool attached = attach_nvtx(get_export_table);
    write_at_exit();
    return attached ? 1 : 0;
  });
}

/// The same for NVTX 2, a library of its own.
AC_ADVISOR_EXPORT int InitializeInjectionNvtx(const void* (*get_export_table)(std::uint32_t)) {
  return InitializeInjectionNvtx2(get_export_table);
}
