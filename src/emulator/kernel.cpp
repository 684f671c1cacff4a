#include "emulator/kernel.hpp"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "emulator/code/code_object.hpp"
#include "emulator/device.hpp"
#include "emulator/graph.hpp"
#include "emulator/pacing.hpp"

namespace emulator {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::deque<Kernel> kernels;
  std::unordered_map<const void*, Kernel*> by_function;
  std::unordered_map<std::string, Kernel*> by_name;  ///< of libraries
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

Kernel* add_locked(Table& t, std::string name) {
  Kernel& k = t.kernels.emplace_back();
  k.name = std::move(name);
  t.by_function.emplace(&k, &k);
  return &k;
}

}  // namespace

Kernel* add_kernel(std::string name, const CodeObject* code, const void* host, int thread_limit) {
  Table& t = table();
  const std::unique_lock lock(t.mutex);
  Kernel* k = add_locked(t, std::move(name));
  k->code = code;
  k->thread_limit = thread_limit;
  if (host != nullptr) t.by_function[host] = k;
  return k;
}

Kernel* find_kernel(const void* function) {
  Table& t = table();
  const std::shared_lock lock(t.mutex);
  const auto found = t.by_function.find(function);
  return found == t.by_function.end() ? nullptr : found->second;
}

Kernel* library_kernel(const std::string& name) {
  Table& t = table();
  {
    const std::shared_lock lock(t.mutex);
    const auto found = t.by_name.find(name);
    if (found != t.by_name.end()) return found->second;
  }
  const std::unique_lock lock(t.mutex);
  Kernel*& k = t.by_name[name];
  if (k == nullptr) k = add_locked(t, name);
  return k;
}

const Resources& resources(Kernel& kernel) {
  if (kernel.resources_known.load(std::memory_order_acquire)) return kernel.resources;
  Resources r = kernel.code == nullptr ? Resources{} : find_resources(*kernel.code, kernel.name);
  if (kernel.thread_limit > 0) r.max_threads = kernel.thread_limit;
  if (r.binary_version == 0) r.binary_version = device().major * 10 + device().minor;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (!kernel.resources_known) {
    kernel.resources = r;
    kernel.resources_known.store(true, std::memory_order_release);
  }
  return kernel.resources;
}

void for_each_kernel(const std::function<void(Kernel&)>& visit) {
  Table& t = table();
  const std::shared_lock lock(t.mutex);
  for (Kernel& k : t.kernels) visit(k);
}

LaunchError check_launch(Kernel& kernel, Dim grid, Dim block, std::size_t dynamic_shared_bytes) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return LaunchError::invalid_configuration;
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return LaunchError::invalid_value;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return LaunchError::invalid_configuration;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads > 1024) return LaunchError::invalid_configuration;
  if (dynamic_shared_bytes > static_cast<std::size_t>(kernel.max_dynamic_shared_bytes))
    return LaunchError::invalid_value;
  return LaunchError::none;
}

void launch(Kernel& kernel, const void* stream) {
  record::touch();
  if (Capture* capture = capture_of(stream)) {
    add_node(*capture, {record::Activity::kernel, &kernel, 0});
    return;
  }
  kernel.launches[static_cast<std::size_t>(record::segment())].fetch_add(1,
                                                                         std::memory_order_relaxed);
  record::count(record::Activity::kernel, 0);
  pace();
}

}  // namespace emulator
