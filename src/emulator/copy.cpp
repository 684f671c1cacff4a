#include "emulator/copy.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "emulator/graph.hpp"
#include "emulator/memory.hpp"
#include "emulator/record.hpp"
#include "emulator/values/delivery.hpp"

namespace emulator {
namespace {

constexpr std::size_t page = 4096;

bool on_device(const void* pointer) {
  const auto range = memory::find(pointer);
  return range && (memory::on_device(*range) || range->kind == memory::Kind::managed);
}

record::Activity kind(const void* to, const void* from) {
  const bool target = on_device(to), source = on_device(from);
  if (target && source) return record::Activity::copy_on_device;
  if (target) return record::Activity::copy_from_host;
  if (source) return record::Activity::copy_to_host;
  return record::Activity::copy_on_host;
}

/// False where the stream is captured: it will happen at replay.
bool count_now(record::Activity activity, std::size_t bytes, const void* stream) {
  record::touch();
  if (Capture* capture = capture_of(stream)) {
    add_node(*capture, {activity, nullptr, bytes});
    return false;
  }
  record::count(activity, bytes);
  return true;
}

void zero(char* to, std::size_t bytes) {
  if (bytes <= copy_limit() || !on_device(to)) {
    std::memset(to, 0, bytes);
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(to), end = begin + bytes;
  const std::uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  std::memset(to, 0, first - begin);
  memory::discard(reinterpret_cast<void*>(first), last - first);
  std::memset(reinterpret_cast<void*>(last), 0, end - last);
}

}  // namespace

std::size_t copy_limit() {
  static const std::size_t limit = [] {
    const char* text = std::getenv("AC_ADVISOR_EMULATOR_COPY_LIMIT");
    return text == nullptr ? std::size_t{1} << 20 : std::strtoull(text, nullptr, 10);
  }();
  return limit;
}

void copy(void* to, const void* from, std::size_t bytes, const void* stream) {
  if (bytes == 0) return;
  const record::Activity activity = kind(to, from);
  if (!count_now(activity, bytes, stream)) return;
  if (activity == record::Activity::copy_to_host && values::take_delivery(to, bytes)) return;
  if (bytes <= copy_limit() || activity == record::Activity::copy_on_host)
    std::memmove(to, from, bytes);
}

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
               std::size_t width, std::size_t height, const void* stream) {
  if (width * height == 0) return;
  const record::Activity activity = kind(to, from);
  if (!count_now(activity, width * height, stream)) return;
  if (width * height > copy_limit() && activity != record::Activity::copy_on_host) return;
  for (std::size_t row = 0; row < height; ++row)
    std::memmove(static_cast<char*>(to) + row * to_pitch,
                 static_cast<const char*>(from) + row * from_pitch, width);
}

void fill(void* to, unsigned value, std::size_t size, std::size_t count, const void* stream) {
  const std::size_t bytes = size * count;
  if (bytes == 0 || !count_now(record::Activity::memory_set, bytes, stream)) return;
  if (value == 0) {
    zero(static_cast<char*>(to), bytes);
    return;
  }
  if (bytes > copy_limit()) return;
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(static_cast<char*>(to) + i * size, &value, size);  // little-endian
}

}  // namespace emulator
