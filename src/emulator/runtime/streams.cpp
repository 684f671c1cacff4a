#include "emulator/stream.hpp"

#include "emulator/device.hpp"
#include "emulator/graph.hpp"
#include "emulator/record.hpp"
#include "emulator/runtime/api.hpp"

namespace emulator::runtime {

ANSWER cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                int priority) {
  record::touch();
  *stream = reinterpret_cast<cudaStream_t>(create_stream(flags, priority));
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, lowest_priority);
}
ANSWER cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, lowest_priority);
}
ANSWER cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return destroy_stream(stream) ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
ANSWER cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return capture_of(stream) == nullptr ? cudaSuccess : fail(cudaErrorStreamCaptureUnsupported);
}
ANSWER cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return capture_of(stream) == nullptr ? cudaSuccess : fail(cudaErrorStreamCaptureUnsupported);
}
ANSWER cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream_of(stream)->priority;
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  *flags = stream_of(stream)->flags;
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = stream_of(stream)->id;
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* index) {
  *index = stream_of(stream)->device;
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID,
                                          const cudaStreamAttrValue*) {
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, std::size_t, unsigned) {
  return cudaSuccess;
}

/// A stream that waits for an event of a captured stream joins its capture.
ANSWER cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
  const auto* event = reinterpret_cast<const Event*>(handle);
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr && event->capture->graph != nullptr)
    stream_of(stream)->capture = event->capture;
  return cudaSuccess;
}

// Called at once: all work before them is done.
ANSWER cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (capture_of(stream) != nullptr) {
    note_once("a host function was captured into a graph: replays do not call it");
    return cudaSuccess;
  }
  function(data);
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                         void* data, unsigned) {
  function(stream, cudaSuccess, data);
  return cudaSuccess;
}

}  // namespace emulator::runtime
