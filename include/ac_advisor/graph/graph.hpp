#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// A training step that `python -m ac_advisor.capture` recorded of a PyTorch model
/// (docs/graphs.md).
namespace ac_advisor::graph {

using Index = std::int32_t;
using Indices = std::vector<Index>;

enum class DType : std::uint8_t {
  bfloat16,
  float16,
  float32,
  float64,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
  complex64,
  float8_e4m3fn,
  float8_e5m2,
};
[[nodiscard]] std::int64_t size_of(DType dtype);

/// A view of a storage: what an op reads.
struct Tensor {
  Index storage = 0;
  DType dtype = DType::bfloat16;
  std::vector<std::int64_t> shape;
  bool operator==(const Tensor&) const = default;
};

struct Module {
  std::string path;  ///< "model.layers.0.mlp"; empty: the model
  Index block = -1;  ///< that it is in, in Graph::blocks; -1: none
  bool operator==(const Module&) const = default;
};

struct Parameter {
  std::string name;
  Index tensor = 0;
  bool trained = true;
  Index module = 0;  ///< whose it is, by its name
  bool operator==(const Parameter&) const = default;
};

enum class Phase : std::uint8_t { forward, loss, backward };

/// [rows, columns, inner] of a matrix product, batches in the rows.
struct Product {
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool operator==(const Product&) const = default;
};

/// One op of PyTorch's dispatcher, or what it does between freeing and allocating.
struct Op {
  Index name = 0;  ///< in Graph::op_names
  Phase phase = Phase::forward;
  Index module = 0;
  Indices in;     ///< tensors that it reads
  Indices out;    ///< storages that it allocates
  Indices frees;  ///< storages that are freed after it and before the next
  Indices drops;  ///< of those that autograd holds: what Python lets go of then
  std::int64_t launches = 0;
  std::optional<Product> product;
  double flops = 0;    ///< of attention and convolution
  Index node = -1;     ///< of autograd that runs it, in the order of execution
  Index forward = -1;  ///< the op whose node that is
  bool operator==(const Op&) const = default;
};

struct Gradient {
  Index parameter = 0;
  Index storage = 0;
  Index whole = 0;  ///< the op after which it is: what autograd accumulates then
  bool operator==(const Gradient&) const = default;
};

struct MicroBatch {
  std::vector<Op> ops;
  Indices outputs;  ///< storages of the module's output
  Index loss = 0;
  std::vector<Gradient> gradients;
  bool operator==(const MicroBatch&) const = default;
};

struct Graph {
  std::string name;
  std::int64_t batch = 1, seq = 1;
  std::vector<Module> modules;
  Indices blocks;                      ///< modules that repeat: what --ac recomputes together
  std::vector<std::int64_t> storages;  ///< bytes
  std::vector<Tensor> tensors;
  std::vector<std::string> op_names;
  std::vector<Parameter> parameters;
  Indices buffers, inputs, others;  ///< tensors, tensors, storages: what exists before the step
  /// The first of a step, and each that follows it, whose gradients are added to the first's.
  std::array<MicroBatch, 2> micro_batches;
  std::string digest;  ///< of the file's text
  bool operator==(const Graph&) const = default;
};

/// Whether a JSON text is one: it names this schema.
inline constexpr const char* schema = "ac-advisor/graph/1";
[[nodiscard]] bool is_graph(const std::string& text);

/// Reads a graph and checks that it can be run in its order: each index is in range, and nothing is
/// read or freed that is not alive. Throws UserError naming `origin` and the field.
[[nodiscard]] Graph read_graph(const std::string& text, const std::string& origin);

[[nodiscard]] std::int64_t parameter_count(const Graph& graph);
/// Of most parameters, by bytes.
[[nodiscard]] DType parameter_dtype(const Graph& graph);
/// Fills `Module::block` and `Parameter::module` from their paths.
void place_modules(Graph& graph);

}  // namespace ac_advisor::graph
