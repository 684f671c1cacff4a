#include "emulator/cudnn/handle.hpp"

#include "emulator/cudnn/device_properties.hpp"
#include "emulator/cudnn/real_library.hpp"

namespace emulator::cudnn {

ANSWER Status cudnnCreate(Handle** handle) {
  if (handle == nullptr) return bad_pointer;
  device_properties();  // that cuDNN cannot plan is said here, not in the middle of a step
  *handle = new Handle;
  return success;
}
ANSWER Status cudnnDestroy(Handle* handle) {
  delete handle;
  return success;
}
ANSWER Status cudnnSetStream(Handle* handle, void* stream) {
  if (handle == nullptr) return not_initialized;
  handle->stream = stream;
  return success;
}
ANSWER Status cudnnGetStream(Handle* handle, void** stream) {
  if (handle == nullptr || stream == nullptr) return bad_pointer;
  *stream = handle->stream;
  return success;
}
/// Asks whether kernels met an error while they ran: none did.
ANSWER Status cudnnQueryRuntimeError(Handle*, Status* status, int, void*) {
  if (status != nullptr) *status = success;
  return success;
}

}  // namespace emulator::cudnn
