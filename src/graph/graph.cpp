#include "ac_advisor/graph/graph.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

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

/// "a.b" of "a.b.c"; empty of a path of one part.
std::string_view parent(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

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

void place_modules(Graph& graph) {
  std::unordered_map<std::string_view, Index> modules, blocks;
  for (std::size_t m = 0; m < graph.modules.size(); ++m)
    modules.try_emplace(graph.modules[m].path, static_cast<Index>(m));
  for (std::size_t b = 0; b < graph.blocks.size(); ++b)
    blocks[graph.modules[static_cast<std::size_t>(graph.blocks[b])].path] = static_cast<Index>(b);
  for (Module& module : graph.modules)  // of blocks within blocks the last in the list
    for (std::string_view path = module.path;; path = parent(path)) {
      if (const auto found = blocks.find(path); found != blocks.end())
        module.block = std::max(module.block, found->second);
      if (path.find('.') == std::string_view::npos) break;
    }
  for (Parameter& parameter : graph.parameters)  // the longest path that the name begins with
    for (std::string_view path = parent(parameter.name); !path.empty(); path = parent(path))
      if (const auto found = modules.find(path); found != modules.end()) {
        parameter.module = found->second;
        break;
      }
}

}  // namespace ac_advisor::graph
