#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/answer.hpp"

/// What of cuDNN's public backend interface is spoken of here: numbers and shapes as in
/// cudnn_graph_v9.h of cuDNN 9.19, which a build of this library need not have.
namespace emulator::cudnn {

using Status = int;
inline constexpr Status success = 0, not_initialized = 1001, bad_pointer = 2002;
/// 4xxx: something went wrong inside cuDNN; 5xxx: CUDA refused it something. 3xxx says that an
/// engine cannot do what is asked, which a program expects of some engines.
inline bool went_wrong(Status s) { return s >= 4000 && s < 6000; }
/// NVRTC or the driver was not found: no runtime-compiled engine works.
inline constexpr Status prerequisite_missing = 3008;

using Descriptor = void*;
enum class DescriptorType : int {
  engine = 2,
  engine_heuristics = 4,
  execution_plan = 5,
  operation_graph = 15,
  device_properties = 38,
};

enum class Attribute : int {
  heuristics_device_properties = 204,
  plan_handle = 400,
  plan_json = 405,
  plan_device_properties = 407,
  graph_handle = 800,
  engine_device_properties = 1307,
  device_properties_json = 2702,
};

enum class AttributeType : int { handle = 0, character = 24, descriptor = 15 };

}  // namespace emulator::cudnn
