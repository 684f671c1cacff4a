#pragma once

#include <cstdint>
#include <string>

#include "emulator/memory.hpp"

/// What the process did to the device, in segments that the program's phases set, and the file it
/// goes to: a JSON object a line, in the folder that AC_ADVISOR_EMULATOR_RECORD names. Lines are
/// appended as they come: a process that is killed, crashes or becomes another program leaves what
/// it has told, without the line of kind "end".
namespace emulator::record {

enum class Segment : int { forward, backward, optimizer, undecided };
inline constexpr int segment_count = 4;

enum class Activity : int {
  kernel,
  memory_set,
  copy_on_device,
  copy_to_host,
  copy_from_host,
  copy_on_host,
};
inline constexpr int activity_count = 6;

/// The segment that activities are counted in, of all threads: backward runs in autograd's own.
int segment() noexcept;

/// One activity of `bytes` (0 for kernels).
void count(Activity activity, std::uint64_t bytes) noexcept;

/// The process uses the device: its record begins. What it forks has none.
void touch() noexcept;

/// Appends a line of the program's own (a JSON object).
void add_line(std::string line);

/// Appends a device's new peak as soon as it is one: no handler runs where the process is killed.
void tell_balance(int device, const memory::Balance& balance) noexcept;

/// Appends what devices and activities have come to; allocates nothing and waits for no lock.
void tell_counters() noexcept;

/// The last lines; a second call does nothing.
void finish() noexcept;

/// For a JSON string.
std::string quoted(const std::string& text);

}  // namespace emulator::record
