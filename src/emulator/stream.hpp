#pragma once

#include <cstdint>

namespace emulator {

struct Capture;

/// What a cudaStream_t or CUstream points to. Work is done the moment it is issued, so a stream has
/// only its properties and the graph that it is captured into.
struct Stream {
  std::uint64_t id = 0;
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  Capture* capture = nullptr;
};

/// What a cudaEvent_t or CUevent points to.
struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  Capture* capture = nullptr;  ///< that it was recorded in
};

/// The program's own handle, or of one of the default streams (null, legacy, per thread).
Stream* stream_of(const void* handle);
Stream* create_stream(unsigned flags, int priority);
bool destroy_stream(const void* handle);
inline constexpr int lowest_priority = 0, highest_priority = -5;  ///< as on GPUs since Volta

/// Milliseconds between any two events: nothing is timed. Autotuners take their first candidate.
inline constexpr float elapsed_milliseconds = 1.0F;

}  // namespace emulator
