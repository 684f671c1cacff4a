#pragma once

#include <string>

#include "emulator/cudnn/api.hpp"

namespace emulator::cudnn {

/// The device as cuDNN writes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), from what the runtime
/// and the driver answer for device `index`.
std::string device_json(int index);

/// A finalized CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR of the emulated device, made once.
Descriptor device_properties();

}  // namespace emulator::cudnn
