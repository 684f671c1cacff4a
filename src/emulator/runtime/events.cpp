#include <cstring>

#include "emulator/device.hpp"
#include "emulator/graph.hpp"
#include "emulator/runtime/api.hpp"
#include "emulator/stream.hpp"
#include "emulator/watchdog.hpp"

namespace emulator::runtime {
namespace {

Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

}  // namespace

ANSWER cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  auto* event = new Event;
  event->device = current_device();
  event->flags = flags;
  *handle = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}
ANSWER cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}
ANSWER cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  if (handle == nullptr) return fail(cudaErrorInvalidResourceHandle);
  delete event_of(handle);
  return cudaSuccess;
}
ANSWER cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned) {
  if (handle == nullptr) return fail(cudaErrorInvalidResourceHandle);
  event_of(handle)->recorded = true;
  event_of(handle)->capture = capture_of(stream);
  return cudaSuccess;
}
ANSWER cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return cudaEventRecordWithFlags(handle, stream, 0);
}
ANSWER cudaError_t cudaEventQuery(cudaEvent_t) {
  return sees_ends() ? cudaSuccess : cudaErrorNotReady;
}
ANSWER cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
ANSWER cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from == nullptr || to == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const unsigned flags = event_of(from)->flags | event_of(to)->flags;
  if ((flags & cudaEventDisableTiming) != 0 || !event_of(from)->recorded || !event_of(to)->recorded)
    return fail(cudaErrorInvalidResourceHandle);
  note_once("the program timed the device: events lie 1 ms apart, whatever lies between them");
  *milliseconds = elapsed_milliseconds;
  return cudaSuccess;
}
ANSWER cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t) {
  std::memset(handle, 0, sizeof *handle);
  return cudaSuccess;
}
ANSWER cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* handle, cudaIpcEventHandle_t) {
  return cudaEventCreateWithFlags(handle, cudaEventDisableTiming);
}

}  // namespace emulator::runtime
