#include "ac_advisor/graph/graph.hpp"

#include <map>

namespace ac_advisor::graph {

std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64:
    case DType::complex64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::bfloat16:
    case DType::float16:
    case DType::int16:
      return 2;
    default:
      return 1;
  }
}

namespace {

std::int64_t elements(const Tensor& tensor) {
  std::int64_t product = 1;  // the reader has seen that it does not overflow
  for (const std::int64_t size : tensor.shape) product *= size;
  return product;
}

}  // namespace

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t sum = 0;
  for (const Parameter& p : graph.parameters)
    sum += elements(graph.tensors[static_cast<std::size_t>(p.tensor)]);
  return sum;
}

DType parameter_dtype(const Graph& graph) {
  std::map<DType, std::int64_t> bytes;
  for (const Parameter& p : graph.parameters) {
    const Tensor& tensor = graph.tensors[static_cast<std::size_t>(p.tensor)];
    bytes[tensor.dtype] += elements(tensor) * size_of(tensor.dtype);
  }
  DType most = DType::bfloat16;
  for (const auto& [dtype, size] : bytes)
    if (size > bytes[most]) most = dtype;
  return most;
}

Indices block_of_modules(const Graph& graph) {
  Indices block(graph.modules.size(), -1);
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    const std::string& path = graph.modules[static_cast<std::size_t>(graph.blocks[b])].path;
    for (std::size_t m = 0; m < graph.modules.size(); ++m)
      if (graph.modules[m].path == path || graph.modules[m].path.starts_with(path + "."))
        block[m] = static_cast<Index>(b);
  }
  return block;
}

}  // namespace ac_advisor::graph
