#include "emulator/stream.hpp"

#include <cuda_runtime_api.h>

#include "emulator/driver/api.hpp"

/// The runtime's, under the driver's names: a cudaStream_t is a CUstream.
namespace emulator::driver {
namespace {

CUresult result(cudaError_t error) { return static_cast<CUresult>(error); }

}  // namespace

ANSWER CUresult cuStreamCreate(CUstream* s, unsigned flags) {
  return result(cudaStreamCreateWithFlags(s, flags));
}
ANSWER CUresult cuStreamCreateWithPriority(CUstream* s, unsigned flags, int priority) {
  return result(cudaStreamCreateWithPriority(s, flags, priority));
}
ANSWER CUresult cuStreamDestroy_v2(CUstream s) { return result(cudaStreamDestroy(s)); }
ANSWER CUresult cuStreamSynchronize(CUstream s) { return result(cudaStreamSynchronize(s)); }
ANSWER CUresult cuStreamQuery(CUstream s) { return result(cudaStreamQuery(s)); }
ANSWER CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  return result(cudaStreamWaitEvent(s, e, flags));
}
ANSWER CUresult cuStreamGetCtx(CUstream s, CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(stream_of(s)->device) + 1);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuStreamGetDevice(CUstream s, CUdevice* d) {
  *d = stream_of(s)->device;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  return result(cudaStreamIsCapturing(s, reinterpret_cast<cudaStreamCaptureStatus*>(status)));
}
ANSWER CUresult cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                          CUgraph* graph, const CUgraphNode** dependencies,
                                          const CUgraphEdgeData** edges, std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  unsigned long long number = 0;
  const CUresult r =
      result(cudaStreamGetCaptureInfo(s, reinterpret_cast<cudaStreamCaptureStatus*>(status),
                                      &number, graph, dependencies, nullptr, count));
  if (id != nullptr) *id = number;
  return r;
}
ANSWER CUresult cuStreamWriteValue32_v2(CUstream, CUdeviceptr at, cuuint32_t value, unsigned) {
  *reinterpret_cast<cuuint32_t*>(at) = value;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, cuuint32_t, unsigned) {
  return CUDA_SUCCESS;
}
ANSWER CUresult cuEventCreate(CUevent* e, unsigned flags) {
  return result(cudaEventCreateWithFlags(e, flags));
}
ANSWER CUresult cuEventDestroy_v2(CUevent e) { return result(cudaEventDestroy(e)); }
ANSWER CUresult cuEventRecord(CUevent e, CUstream s) { return result(cudaEventRecord(e, s)); }
ANSWER CUresult cuEventQuery(CUevent e) { return result(cudaEventQuery(e)); }
ANSWER CUresult cuEventSynchronize(CUevent e) { return result(cudaEventSynchronize(e)); }
ANSWER CUresult cuEventElapsedTime_v2(float* ms, CUevent a, CUevent b) {
  return result(cudaEventElapsedTime(ms, a, b));
}

}  // namespace emulator::driver
