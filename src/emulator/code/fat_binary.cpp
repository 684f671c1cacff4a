#include "emulator/code/fat_binary.hpp"

#include <dlfcn.h>

#include <cstring>

#include "emulator/answer.hpp"
#include "emulator/device.hpp"

namespace emulator {
namespace {

// As nvcc of CUDA 12 and 13 writes it (fatbinary_section.h tells of the wrapper; the rest is seen
// in libraries): a header, then entries, each a header with its payload behind it.
struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, options_offset;
  std::uint16_t minor, major;
  std::uint32_t architecture;  ///< 90 for 9.0
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags, reserved, decompressed_bytes;
};
constexpr std::uint32_t magic = 0xBA55ED50;
constexpr std::uint16_t elf = 2;
constexpr std::uint64_t lz4_flag = 0x2000, zstd_flag = 0x8000;

using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);

Decompress zstd() {
  static const auto function = [] {
    void* library = ::dlopen("libzstd.so.1", RTLD_LAZY | RTLD_LOCAL);
    return library == nullptr ? nullptr
                              : reinterpret_cast<Decompress>(::dlsym(library, "ZSTD_decompress"));
  }();
  return function;
}

std::string payload(const Entry& e) {
  const char* data = reinterpret_cast<const char*>(&e) + e.header_bytes;
  if ((e.flags & (lz4_flag | zstd_flag)) == 0) return {data, e.bytes};
  if ((e.flags & zstd_flag) == 0 || zstd() == nullptr) {
    note_once(
        "kernels' registers are not known: their code is compressed and libzstd.so.1 is not "
        "there, or it is of before CUDA 12.8; occupancy is that of 32 registers");
    return {};
  }
  std::string code(e.decompressed_bytes, '\0');
  const std::size_t n = zstd()(code.data(), code.size(), data, e.compressed_bytes);
  return n == code.size() ? code : std::string();
}

}  // namespace

std::string machine_code(const void* data) {
  const auto* header = static_cast<const Header*>(data);
  if (header->magic != magic) return {};
  const char* at = static_cast<const char*>(data) + header->header_bytes;
  const char* const end = at + header->bytes;
  const auto wanted = static_cast<std::uint32_t>(device().major * 10 + device().minor);
  const Entry* best = nullptr;
  while (at + sizeof(Entry) <= end) {
    const auto* entry = reinterpret_cast<const Entry*>(at);
    const std::uint32_t a = entry->architecture;
    if (entry->kind == elf && a / 10 == wanted / 10 && a <= wanted &&
        (best == nullptr || a >= best->architecture))
      best = entry;
    at += entry->header_bytes + entry->bytes;
  }
  return best == nullptr ? std::string() : payload(*best);
}

}  // namespace emulator
