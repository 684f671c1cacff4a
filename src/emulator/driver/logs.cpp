#include "emulator/driver/api.hpp"

/// The driver's log of errors: PyTorch (2.15) asks to hear of them. There are none to tell of.
namespace emulator::driver {

ANSWER CUresult cuLogsRegisterCallback(CUlogsCallback, void*, CUlogsCallbackHandle* callback) {
  static int registered = 0;
  if (callback != nullptr) *callback = reinterpret_cast<CUlogsCallbackHandle>(&registered);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle) { return CUDA_SUCCESS; }

}  // namespace emulator::driver
