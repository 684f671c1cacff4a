#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "emulator/code/code_object.hpp"
#include "emulator/kernel.hpp"
#include "emulator/runtime/api.hpp"
#include "emulator/runtime/symbols.hpp"

/// What nvcc's static constructors call, before main and for each library that is opened.
namespace emulator::runtime {
namespace {

struct Variable {
  std::size_t bytes = 0;
  char* memory = nullptr;
};
struct Variables {
  std::mutex mutex;
  std::unordered_map<const void*, Variable> by_symbol;
};
Variables& variables() {
  static auto* v = new Variables;
  return *v;
}

}  // namespace

char* address_of(const void* symbol) {
  Variables& all = variables();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_symbol.find(symbol);
  if (found == all.by_symbol.end()) return nullptr;
  Variable& v = found->second;
  if (v.memory == nullptr) v.memory = static_cast<char*>(std::calloc(1, v.bytes));
  return v.memory;
}

std::size_t size_of(const void* symbol) {
  Variables& all = variables();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_symbol.find(symbol);
  return found == all.by_symbol.end() ? 0 : found->second.bytes;
}

ANSWER void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(const_cast<CodeObject*>(add_code_object(wrapper)));
}
ANSWER void __cudaRegisterFatBinaryEnd(void**) {}
ANSWER void __cudaUnregisterFatBinary(void**) {}
ANSWER char __cudaInitModule(void**) { return 1; }

ANSWER void __cudaRegisterFunction(void** binary, const char* host, char*, const char* name,
                                   int thread_limit, void*, void*, void*, void*, int*) {
  add_kernel(name, reinterpret_cast<const CodeObject*>(binary), host, thread_limit);
}
ANSWER void __cudaRegisterVar(void**, char* host, char*, const char*, int, std::size_t bytes, int,
                              int) {
  Variables& all = variables();
  const std::lock_guard lock(all.mutex);
  all.by_symbol[host] = {bytes, nullptr};
}
ANSWER void __cudaRegisterManagedVar(void**, void** host, char*, const char*, int,
                                     std::size_t bytes, int, int) {
  *host = std::calloc(1, bytes);
}

}  // namespace emulator::runtime
