#include "emulator/copy.hpp"

#include "emulator/runtime/api.hpp"
#include "emulator/runtime/symbols.hpp"

namespace emulator::runtime {

ANSWER cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  copy(to, from, bytes, nullptr);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  copy(to, from, bytes, stream);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  copy(to, from, bytes, nullptr);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                       cudaStream_t stream) {
  copy(to, from, bytes, stream);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                std::size_t from_pitch, std::size_t width, std::size_t height,
                                cudaMemcpyKind) {
  copy_rows(to, to_pitch, from, from_pitch, width, height, nullptr);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t height,
                                     cudaMemcpyKind, cudaStream_t stream) {
  copy_rows(to, to_pitch, from, from_pitch, width, height, stream);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  fill(to, static_cast<unsigned>(value) & 0xff, 1, bytes, nullptr);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  fill(to, static_cast<unsigned>(value) & 0xff, 1, bytes, stream);
  return cudaSuccess;
}

ANSWER cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                                      std::size_t offset, cudaMemcpyKind) {
  char* to = address_of(symbol);
  if (to == nullptr) return fail(cudaErrorInvalidSymbol);
  copy(to + offset, from, bytes, nullptr);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                           std::size_t offset, cudaMemcpyKind, cudaStream_t s) {
  char* to = address_of(symbol);
  if (to == nullptr) return fail(cudaErrorInvalidSymbol);
  copy(to + offset, from, bytes, s);
  return cudaSuccess;
}
ANSWER cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes,
                                        std::size_t offset, cudaMemcpyKind) {
  const char* from = address_of(symbol);
  if (from == nullptr) return fail(cudaErrorInvalidSymbol);
  copy(to, from + offset, bytes, nullptr);
  return cudaSuccess;
}
ANSWER cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  *pointer = address_of(symbol);
  return *pointer == nullptr ? fail(cudaErrorInvalidSymbol) : cudaSuccess;
}
ANSWER cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  *bytes = size_of(symbol);
  return *bytes == 0 ? fail(cudaErrorInvalidSymbol) : cudaSuccess;
}

}  // namespace emulator::runtime
