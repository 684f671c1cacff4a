#pragma once

#include "emulator/cudnn/api.hpp"

namespace emulator::cudnn {

/// The functions of the real libcudnn.so.9 that those here stand in front of. Its planner runs as
/// it is: it asks the driver for the count of devices and for the kernels that it compiled, no
/// more.
struct RealLibrary {
  Status (*create_descriptor)(DescriptorType, Descriptor*);
  Status (*destroy_descriptor)(Descriptor);
  Status (*finalize)(Descriptor);
  Status (*set_attribute)(Descriptor, Attribute, AttributeType, std::int64_t, const void*);
  Status (*get_attribute)(Descriptor, Attribute, AttributeType, std::int64_t, std::int64_t*, void*);
  void (*last_error)(char*, std::size_t);
  const char* (*error_string)(Status);
  std::size_t (*version)();
};

/// Ends the process where libcudnn.so.9 is not there, or older than 9.8, which plans for no device
/// that it cannot ask.
const RealLibrary& real();

}  // namespace emulator::cudnn
