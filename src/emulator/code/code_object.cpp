#include "emulator/code/code_object.hpp"

#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "emulator/answer.hpp"
#include "emulator/code/cubin.hpp"
#include "emulator/code/fat_binary.hpp"

namespace emulator {

struct CodeObject {
  const void* fat_binary = nullptr;
  mutable std::once_flag read;
  mutable std::unordered_map<std::string, Resources> kernels;
};

namespace {

/// What nvcc registers: fatbinary_section.h, __fatBinC_Wrapper_t.
struct Wrapper {
  std::int32_t magic, version;
  const void* data;
  void* prelinked;
};
constexpr std::uint32_t fat_binary_magic = 0xBA55ED50;

/// A cubin's size, of which its loader is told nothing: where its section headers end.
std::size_t elf_bytes(const char* image) {
  std::uint64_t sections = 0;
  std::uint16_t entry = 0, count = 0;
  std::memcpy(&sections, image + 0x28, sizeof sections);
  std::memcpy(&entry, image + 0x3a, sizeof entry);
  std::memcpy(&count, image + 0x3c, sizeof count);
  return sections + std::size_t{entry} * count;
}

}  // namespace

const CodeObject* add_code_object(const void* wrapper) {
  auto* object = new CodeObject;
  object->fat_binary = static_cast<const Wrapper*>(wrapper)->data;
  return object;
}

/// Read at once: the program may free it.
const CodeObject* add_image(const void* image) {
  auto* object = new CodeObject;
  if (image == nullptr) return object;
  const char* bytes = static_cast<const char*>(image);
  std::uint32_t magic = 0;
  std::memcpy(&magic, bytes, sizeof magic);
  std::string code;
  if (std::memcmp(bytes, "\177ELF", 4) == 0) code.assign(bytes, elf_bytes(bytes));
  if (magic == fat_binary_magic) code = machine_code(image);
  object->kernels = read_cubin(code);
  return object;
}

Resources find_resources(const CodeObject& code, const std::string& kernel) {
  std::call_once(code.read, [&] {
    if (code.fat_binary != nullptr) code.kernels = read_cubin(machine_code(code.fat_binary));
  });
  const auto found = code.kernels.find(kernel);
  return found == code.kernels.end() ? Resources{} : found->second;
}

}  // namespace emulator
