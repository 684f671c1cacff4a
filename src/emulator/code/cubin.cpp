#include "emulator/code/cubin.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "emulator/device.hpp"

namespace emulator {
namespace {

// Attributes in .nv.info sections: format, attribute, then 2 or more bytes ("CUDA Binary Utilities"
// lists their names, nvdisasm -elf prints them with their numbers).
constexpr unsigned char format_sized = 4;
constexpr unsigned char max_threads = 0x05, frame_size = 0x11, register_count = 0x2f;
constexpr std::string_view text = ".text.", shared = ".nv.shared.", constants = ".nv.constant0.",
                           info = ".nv.info.";

/// From compute capability 9.0 on, a shared section begins with what is the system's (a __shared__
/// array of 400 bytes makes one of 1,424; nvcc 13.0).
constexpr int reserved_shared = 1024, reserved_since = 9;

/// The compute capability that the code was made for, 86 for 8.6: libraries choose their kernels'
/// parameters by it, and it may be an older one than the device's. LLVM's BinaryFormat/ELF.h:
/// EF_CUDA_SM, and EF_CUDA_SM_MASK since ELFABIVERSION_CUDA_V2.
int architecture(const Elf64_Ehdr& header) {
  constexpr unsigned char second_version = 8;
  const unsigned shift = header.e_ident[EI_ABIVERSION] >= second_version ? 8 : 0;
  return static_cast<int>((header.e_flags >> shift) & 0xff);
}

/// Reads of the image that stay inside it.
class Image {
 public:
  explicit Image(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  bool read(std::size_t at, T& out) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof out) return false;
    std::memcpy(&out, bytes_.data() + at, sizeof out);
    return true;
  }
  std::string_view name(std::size_t at) const {
    return at < bytes_.size() ? std::string_view(bytes_.c_str() + at) : std::string_view();
  }

 private:
  const std::string& bytes_;
};

bool begins(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

/// Calls visit(attribute, offset of its value, bytes) for each.
template <typename Visit>
void for_each_attribute(const Image& image, const Elf64_Shdr& section, const Visit& visit) {
  std::size_t at = section.sh_offset;
  const std::size_t end = at + section.sh_size;
  unsigned char format = 0, attribute = 0;
  std::uint16_t value = 0;
  while (at + 4 <= end && image.read(at, format) && image.read(at + 1, attribute) &&
         image.read(at + 2, value)) {
    const std::size_t bytes = format == format_sized ? value : 0;
    visit(attribute, at + 4, bytes);
    at += 4 + bytes;
  }
}

}  // namespace

std::unordered_map<std::string, Resources> read_cubin(const std::string& bytes) {
  std::unordered_map<std::string, Resources> kernels;
  const Image image(bytes);
  Elf64_Ehdr header;
  if (!image.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return kernels;
  const auto section = [&](std::size_t i, Elf64_Shdr& out) {
    return image.read(header.e_shoff + i * sizeof out, out);
  };
  Elf64_Shdr names;
  if (!section(header.e_shstrndx, names)) return kernels;

  std::unordered_map<std::uint32_t, std::string> by_symbol;  // of the global .nv.info
  Elf64_Shdr s, global{};
  for (std::size_t i = 0; i < header.e_shnum && section(i, s); ++i) {
    const std::string_view name = image.name(names.sh_offset + s.sh_name);
    if (begins(name, text)) {
      Resources& r = kernels[std::string(name.substr(text.size()))];
      r.from_code = true;
      r.registers = static_cast<int>(s.sh_info >> 24);
      by_symbol[s.sh_info & 0xffffff] = name.substr(text.size());
    } else if (begins(name, shared)) {
      const int of_system = device().major >= reserved_since ? reserved_shared : 0;
      kernels[std::string(name.substr(shared.size()))].static_shared_bytes =
          std::max(0, static_cast<int>(s.sh_size) - of_system);
    } else if (begins(name, constants)) {
      kernels[std::string(name.substr(constants.size()))].constant_bytes =
          static_cast<int>(s.sh_size);
    } else if (begins(name, info)) {
      Resources& r = kernels[std::string(name.substr(info.size()))];
      for_each_attribute(image, s, [&](unsigned char attribute, std::size_t at, std::size_t) {
        std::uint32_t dims[3];
        if (attribute == max_threads && image.read(at, dims))
          r.max_threads = static_cast<int>(dims[0] * dims[1] * dims[2]);
      });
    } else if (name == ".nv.info") {
      global = s;
    }
  }
  for_each_attribute(image, global, [&](unsigned char attribute, std::size_t at, std::size_t n) {
    std::uint32_t pair[2];
    if (n < sizeof pair || !image.read(at, pair)) return;
    const auto kernel = by_symbol.find(pair[0]);
    if (kernel == by_symbol.end()) return;
    if (attribute == frame_size) kernels[kernel->second].local_bytes = static_cast<int>(pair[1]);
    if (attribute == register_count) kernels[kernel->second].registers = static_cast<int>(pair[1]);
  });
  for (auto& [name, r] : kernels) r.binary_version = architecture(header);
  return kernels;
}

}  // namespace emulator
