#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/cudnn/device_properties.hpp"
#include "emulator/cudnn/handle.hpp"
#include "emulator/cudnn/plan.hpp"
#include "emulator/cudnn/real_library.hpp"
#include "emulator/kernel.hpp"

/// cuDNN's backend interface: descriptors are the real library's, which plans for a description of
/// the device in place of a handle; a plan that is executed is counted by its kernels.
namespace emulator::cudnn {
namespace {

struct Known {
  DescriptorType type;
  void* handle = nullptr;  ///< that the program set, to be given back
  bool described = false;  ///< the program set a device description of its own
  std::vector<Kernel*> kernels;
};
struct Table {
  std::mutex mutex;
  std::unordered_map<Descriptor, Known> known;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

bool is_handle(Attribute a) { return a == Attribute::plan_handle || a == Attribute::graph_handle; }

/// The attribute that describes the device to a descriptor of this type; zero where it has none.
Attribute description_of(DescriptorType type) {
  switch (type) {
    case DescriptorType::engine:
      return Attribute::engine_device_properties;
    case DescriptorType::engine_heuristics:
      return Attribute::heuristics_device_properties;
    case DescriptorType::execution_plan:
      return Attribute::plan_device_properties;
    default:
      return Attribute{};
  }
}

[[noreturn]] void cannot_plan(Status status) {
  char message[2048] = "";
  real().last_error(message, sizeof message);
  const std::string way_out =
      std::string("cuDNN's planner could not build an engine for the described device: ") +
      real().error_string(status) + "\n" + message;
  unanswered("cudnnBackendFinalize", way_out.c_str());
}

std::string json_of(Descriptor plan) {
  std::int64_t bytes = 0;
  if (real().get_attribute(plan, Attribute::plan_json, AttributeType::character, 0, &bytes,
                           nullptr) != success)
    return {};
  std::string json(static_cast<std::size_t>(bytes), '\0');
  if (real().get_attribute(plan, Attribute::plan_json, AttributeType::character, bytes, &bytes,
                           json.data()) != success)
    return {};
  return json;
}

}  // namespace

ANSWER Status cudnnBackendCreateDescriptor(DescriptorType type, Descriptor* descriptor) {
  const Status status = real().create_descriptor(type, descriptor);
  if (status == success) {
    Table& t = table();
    const std::lock_guard lock(t.mutex);
    t.known[*descriptor] = {type, nullptr, false, {}};
  }
  return status;
}

ANSWER Status cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  {
    Table& t = table();
    const std::lock_guard lock(t.mutex);
    t.known.erase(descriptor);
  }
  return real().destroy_descriptor(descriptor);
}

ANSWER Status cudnnBackendSetAttribute(Descriptor descriptor, Attribute name, AttributeType type,
                                       std::int64_t count, const void* values) {
  Table& t = table();
  if (is_handle(name)) {
    if (values == nullptr) return bad_pointer;
    const std::lock_guard lock(t.mutex);
    t.known[descriptor].handle = *static_cast<void* const*>(values);
    return success;
  }
  const Status status = real().set_attribute(descriptor, name, type, count, values);
  if (status == success) {
    const std::lock_guard lock(t.mutex);
    const auto found = t.known.find(descriptor);
    if (found != t.known.end() && name == description_of(found->second.type))
      found->second.described = true;
  }
  return status;
}

ANSWER Status cudnnBackendFinalize(Descriptor descriptor) {
  Attribute description{};
  {
    Table& t = table();
    const std::lock_guard lock(t.mutex);
    const auto found = t.known.find(descriptor);
    if (found != t.known.end() && !found->second.described)
      description = description_of(found->second.type);
  }
  if (description != Attribute{}) {
    const Descriptor device = device_properties();
    const Status status =
        real().set_attribute(descriptor, description, AttributeType::descriptor, 1, &device);
    if (status != success) cannot_plan(status);
  }
  const Status status = real().finalize(descriptor);
  if (went_wrong(status) || status == prerequisite_missing) cannot_plan(status);
  return status;
}

ANSWER Status cudnnBackendGetAttribute(Descriptor descriptor, Attribute name, AttributeType type,
                                       std::int64_t asked, std::int64_t* count, void* values) {
  if (!is_handle(name)) return real().get_attribute(descriptor, name, type, asked, count, values);
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  if (count != nullptr) *count = 1;
  if (values != nullptr && asked > 0) *static_cast<void**>(values) = t.known[descriptor].handle;
  return success;
}

ANSWER Status cudnnBackendExecute(Handle* handle, Descriptor plan, Descriptor variant_pack) {
  if (handle == nullptr || plan == nullptr || variant_pack == nullptr) return bad_pointer;
  std::vector<Kernel*> kernels;
  {
    Table& t = table();
    const std::lock_guard lock(t.mutex);
    Known& known = t.known[plan];
    if (known.kernels.empty())
      for (const std::string& name : kernels_of_plan(json_of(plan)))
        known.kernels.push_back(library_kernel(name));
    kernels = known.kernels;
  }
  for (Kernel* kernel : kernels) launch(*kernel, handle->stream);
  return success;
}

}  // namespace emulator::cudnn
