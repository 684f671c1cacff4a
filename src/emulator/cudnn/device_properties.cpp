#include "emulator/cudnn/device_properties.hpp"

#include <cuda_runtime_api.h>

#include "emulator/cudnn/real_library.hpp"
#include "emulator/record.hpp"

namespace emulator::cudnn {
namespace {

/// cuDNN's name of each property, and the attribute that it asks the runtime for (the conditions in
/// libcudnn_graph.so.9's messages name both).
struct Property {
  const char* name;
  cudaDeviceAttr attribute;
};
constexpr Property properties[] = {
    {"regsPerBlock", cudaDevAttrMaxRegistersPerBlock},
    {"multiProcessorCount", cudaDevAttrMultiProcessorCount},
    {"warpSize", cudaDevAttrWarpSize},
    {"maxSharedMemoryPerBlock", cudaDevAttrMaxSharedMemoryPerBlock},
    {"maxSharedMemoryPerBlockOptin", cudaDevAttrMaxSharedMemoryPerBlockOptin},
    {"reservedSharedMemoryPerBlock", cudaDevAttrReservedSharedMemoryPerBlock},
    {"maxRegistersPerSM", cudaDevAttrMaxRegistersPerMultiprocessor},
    {"maxCtasPerSM", cudaDevAttrMaxBlocksPerMultiprocessor},
    {"maxThreadsPerBlock", cudaDevAttrMaxThreadsPerBlock},
    {"maxThreadsPerSM", cudaDevAttrMaxThreadsPerMultiProcessor},
    {"pciDeviceId", cudaDevAttrPciDeviceId},
    {"isTccDriver", cudaDevAttrTccDriver},
    {"supportCoopLaunch", cudaDevAttrCooperativeLaunch},
    {"smClockRateKHz", cudaDevAttrClockRate},
    {"memClockRateKHz", cudaDevAttrMemoryClockRate},
    {"l2CacheSize", cudaDevAttrL2CacheSize},
};

int value_of(cudaDeviceAttr attribute, int index) {
  int value = 0;
  cudaDeviceGetAttribute(&value, attribute, index);
  return value;
}

std::string triple(cudaDeviceAttr first, int index) {
  std::string text = "[";
  for (int i = 0; i < 3; ++i)
    text +=
        (i == 0 ? "" : ",") +
        std::to_string(value_of(static_cast<cudaDeviceAttr>(static_cast<int>(first) + i), index));
  return text + "]";
}

Descriptor make() {
  const RealLibrary& cudnn = real();
  Descriptor descriptor = nullptr;
  const std::string json = device_json(0);
  const auto bytes = static_cast<std::int64_t>(json.size() + 1);  // its reader wants the zero
  if (cudnn.create_descriptor(DescriptorType::device_properties, &descriptor) != success ||
      cudnn.set_attribute(descriptor, Attribute::device_properties_json, AttributeType::character,
                          bytes, json.c_str()) != success ||
      cudnn.finalize(descriptor) != success)
    unanswered("cudnnCreate", "cuDNN does not take the description of the device");
  return descriptor;
}

}  // namespace

std::string device_json(int index) {
  cudaDeviceProp device{};
  cudaGetDeviceProperties(&device, index);
  int driver = 0;
  cudaDriverGetVersion(&driver);
  std::string json = "{\"deviceVer\":" + std::to_string(device.major * 100 + device.minor * 10) +
                     ",\"driverVer\":" + std::to_string(driver) +
                     ",\"cudaDeviceId\":" + std::to_string(index) +
                     ",\"deviceName\":" + record::quoted(device.name) +
                     ",\"totalGlobalMem\":" + std::to_string(device.totalGlobalMem) +
                     ",\"maxGridSize\":" + triple(cudaDevAttrMaxGridDimX, index) +
                     ",\"maxBlockSize\":" + triple(cudaDevAttrMaxBlockDimX, index);
  for (const Property& p : properties)
    json += ",\"" + std::string(p.name) + "\":" + std::to_string(value_of(p.attribute, index));
  return json + "}";
}

Descriptor device_properties() {
  static const Descriptor descriptor = make();
  return descriptor;
}

}  // namespace emulator::cudnn
