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

struct Size {
  std::int64_t batch = 1, seq = 1;
  bool operator==(const Size&) const = default;
};

/// How a whole number depends on the size: sum of coefficient * batch^b * seq^s over `over`, seq
/// rounded first; or the buffer of a reduction by several thread blocks; or values at captured
/// sizes, between which it goes along the tokens.
struct Form {
  struct Term {
    std::int64_t coefficient = 0, b = 0, s = 0;
    bool operator==(const Term&) const = default;
  };
  struct Point {
    Size size;
    std::int64_t value = 0;
    bool operator==(const Point&) const = default;
  };
  std::vector<Term> terms;
  std::int64_t over = 1;
  std::int64_t ceil = 1, floor = 1;  ///< multiples that seq is rounded up to, and down to
  /// In place of terms: bytes of a block's part, tokens of a block until they fill the device, and
  /// the most blocks then.
  std::optional<std::array<std::int64_t, 3>> reduction;
  std::vector<Point> points;  ///< in place of both
  bool operator==(const Form&) const = default;
};

/// Numbers of ops that are not the same at all sizes, by their places.
struct OpForms {
  using OfOp = std::array<Index, 2>;       ///< op, form
  using OfProduct = std::array<Index, 4>;  ///< op, a form each of rows, columns, inner
  std::vector<OfProduct> products;
  std::vector<OfOp> flops, launches;
  bool operator==(const OpForms&) const = default;
};

/// What stands in the place of the first capture's ops [at, at + count).
struct Run {
  Index at = 0, count = 0;
  std::vector<Op> ops;  ///< `forward` counts the ops of the program that this makes
  bool operator==(const Run&) const = default;
};

/// The step at these sizes, whose scratch, views or launches are others than the first capture's.
struct Program {
  struct MicroBatch {
    std::vector<Run> runs;
    OpForms forms;  ///< of the runs' ops, by their places in this program
    bool operator==(const MicroBatch&) const = default;
  };
  std::vector<Size> sizes;
  std::array<MicroBatch, 2> micro_batches;
  bool operator==(const Program&) const = default;
};

/// What a graph is at other sizes than that of its capture (ac_advisor/graph/scale.hpp).
struct Scale {
  bool batch = false, seq = false;
  std::string batch_refused, seq_refused;  ///< why not, if that was asked for
  std::int64_t batch_from = 1;             ///< below, the step is another program
  std::int64_t seq_step = 1;               ///< what sequences differ by
  std::vector<Size> sizes;                 ///< captured, with the first capture's program
  std::vector<Size> held_out;              ///< what the forms were checked against
  std::vector<Form> forms;
  Index tokens = 0;                            ///< a form: rows of most matrix products
  std::vector<std::array<Index, 2>> storages;  ///< storage, form
  std::vector<std::array<Index, 3>> tensors;   ///< tensor, dimension, form
  std::array<OpForms, 2> micro_batches;        ///< of the first capture's ops
  std::vector<Program> programs;
  bool operator==(const Scale&) const = default;
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
  std::optional<Scale> scale;
  bool autocast = false;  ///< its forward ran under torch.autocast in bf16
  std::string given;      ///< the names of what the model was called with, where the file says
  std::string digest;     ///< of the file's text
  /// A sentence: by whom the step was run, where a configuration was captured by itself.
  std::string captured;
  bool operator==(const Graph&) const = default;
};

/// Whether a JSON text is one: it names one of these schemas.
inline constexpr const char* schema = "ac-advisor/graph/1";
inline constexpr const char* schema_with_scale = "ac-advisor/graph/2";
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
