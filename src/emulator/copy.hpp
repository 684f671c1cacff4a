#pragma once

#include <cstddef>

namespace emulator {

/// Copies and fills up to this size (AC_ADVISOR_EMULATOR_COPY_LIMIT; 1 MiB) are done, so that small
/// tensors keep their values; beyond it nothing is moved, so that weights never become resident. A
/// fill with zeros is always done: whole pages are given back.
std::size_t copy_limit();

/// Counted by where both ends lie; done where it is small.
void copy(void* to, const void* from, std::size_t bytes, const void* stream);
/// `height` rows of `width` bytes.
void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
               std::size_t width, std::size_t height, const void* stream);
/// `count` values of `size` bytes (1, 2 or 4).
void fill(void* to, unsigned value, std::size_t size, std::size_t count, const void* stream);

}  // namespace emulator
