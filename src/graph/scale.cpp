#include "ac_advisor/graph/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ac_advisor/model/error.hpp"
#include "form.hpp"
#include "lifetimes.hpp"
#include "splice.hpp"

namespace ac_advisor::graph {
namespace {

/// How far a size is from another: in doublings of the batch, the sequence and their product. A
/// batch of one is by itself, as views of it are.
double distance(Size a, Size b) {
  const double batch =
      std::log2(static_cast<double>(a.batch)) - std::log2(static_cast<double>(b.batch));
  const double seq = std::log2(static_cast<double>(a.seq)) - std::log2(static_cast<double>(b.seq));
  constexpr double far = 1000;
  return ((a.batch == 1) != (b.batch == 1) ? far : 0) + std::abs(batch) + std::abs(seq) +
         std::abs(batch + seq);
}

double nearest(const std::vector<Size>& sizes, Size size) {
  double least = std::numeric_limits<double>::infinity();
  for (const Size one : sizes) least = std::min(least, distance(one, size));
  return least;
}

/// The program of the nearest captured size; null: the first capture's.
const Program* program_at(const Scale& scale, Size size) {
  const Program* found = nullptr;
  double least = nearest(scale.sizes, size);
  for (const Program& program : scale.programs)
    if (const double here = nearest(program.sizes, size); here < least) {
      least = here;
      found = &program;
    }
  return found;
}

std::vector<Size> captured_sizes(const Scale& scale) {
  std::vector<Size> all = scale.sizes;
  for (const Program& program : scale.programs)
    all.insert(all.end(), program.sizes.begin(), program.sizes.end());
  all.insert(all.end(), scale.held_out.begin(), scale.held_out.end());
  return all;
}

class Sizer {
 public:
  Sizer(const Graph& graph, Size size) : g_(graph), s_(*graph.scale), size_(size) {
    const Form& tokens = s_.forms[at(s_.tokens)];
    for (const Form& form : s_.forms) values_.push_back(value_of(form, size, tokens));
  }

  Graph run() {
    Graph made;
    made.name = g_.name;
    made.batch = size_.batch;
    made.seq = size_.seq;
    made.modules = g_.modules;
    made.blocks = g_.blocks;
    made.op_names = g_.op_names;
    made.parameters = g_.parameters;
    made.buffers = g_.buffers;
    made.inputs = g_.inputs;
    made.others = g_.others;
    made.digest = g_.digest;
    made.storages = g_.storages;
    for (const auto& [storage, form] : s_.storages)
      made.storages[at(storage)] = value(form, most_bytes);
    made.tensors = g_.tensors;
    for (const auto& [tensor, dimension, form] : s_.tensors)
      made.tensors[at(tensor)].shape[at(dimension)] = value(form, most_bytes);
    for (const Tensor& tensor : made.tensors) check(tensor);
    const Program* program = program_at(s_, size_);
    for (std::size_t m = 0; m < made.micro_batches.size(); ++m) {
      MicroBatch& micro = made.micro_batches[m];
      micro = g_.micro_batches[m];
      set(s_.micro_batches[m], micro.ops);
      if (program == nullptr) continue;
      micro = spliced(micro, program->micro_batches[m].runs);
      set(program->micro_batches[m].forms, micro.ops);
    }
    return made;
  }

 private:
  static std::size_t at(Index index) { return static_cast<std::size_t>(index); }

  [[noreturn]] void refuse() const {
    throw UserError(fmt::format(
        "--batch {} --seq {}: of {} at this size something would be larger than any that is; give "
        "a smaller one",
        size_.batch, size_.seq, g_.name));
  }

  [[nodiscard]] std::int64_t value(Index form, std::int64_t most) const {
    const std::optional<std::int64_t>& found = values_[at(form)];
    if (!found || *found > most) refuse();
    return *found;
  }

  void check(const Tensor& tensor) const {
    std::int64_t bytes = size_of(tensor.dtype);
    for (const std::int64_t size : tensor.shape)
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(1, size), &bytes) ||
          bytes > most_bytes)
        refuse();
  }

  void set(const OpForms& forms, std::vector<Op>& ops) const {
    constexpr std::int64_t most_side = std::numeric_limits<std::int32_t>::max();
    for (const auto& [op, rows, columns, inner] : forms.products)
      ops[at(op)].product =
          Product{value(rows, most_side), value(columns, most_side), value(inner, most_side)};
    for (const auto& [op, form] : forms.flops) {
      const std::optional<double> flops =
          real_value_of(s_.forms[at(form)], size_, s_.forms[at(s_.tokens)]);
      constexpr double most_flops = 1e30;  // as the file's own
      if (!flops || !(*flops <= most_flops)) refuse();
      ops[at(op)].flops = *flops;
    }
    for (const auto& [op, form] : forms.launches) ops[at(op)].launches = value(form, most_launches);
  }

  const Graph& g_;
  const Scale& s_;
  Size size_;
  std::vector<std::optional<std::int64_t>> values_;  ///< by form
};

bool is_own(const Graph& graph, Size size) { return size == Size{graph.batch, graph.seq}; }

}  // namespace

bool has_size(const Graph& graph, Size size) {
  if (is_own(graph, size)) return true;
  if (!graph.scale) return false;
  const Scale& scale = *graph.scale;
  return size.batch > 0 && size.seq > 0 &&
         (size.batch == graph.batch || (scale.batch && size.batch >= scale.batch_from)) &&
         (scale.seq || size.seq == graph.seq) && (size.seq - graph.seq) % scale.seq_step == 0;
}

std::string why_not(const Graph& graph, Size size) {
  if (!graph.scale) return "";
  const Scale& scale = *graph.scale;
  if (!scale.batch && size.batch != graph.batch) return scale.batch_refused;
  if (!scale.seq && size.seq != graph.seq) return scale.seq_refused;
  if (size.batch != graph.batch && size.batch < scale.batch_from)
    return fmt::format("its step is another program below a batch of {}", scale.batch_from);
  if ((size.seq - graph.seq) % scale.seq_step != 0)
    return fmt::format("its sequences differ by multiples of {}", scale.seq_step);
  return "";
}

std::string beyond_capture(const Graph& graph, Size size) {
  if (!graph.scale || is_own(graph, size)) return "";
  std::int64_t batch = 1, least = graph.seq, most = graph.seq;
  for (const Size one : captured_sizes(*graph.scale)) {
    batch = std::max(batch, one.batch);
    least = std::min(least, one.seq);
    most = std::max(most, one.seq);
  }
  if (size.batch <= batch && size.seq >= least && size.seq <= most) return "";
  return fmt::format(
      "the graph was captured at batches up to {} and sequences of {} to {}: at {} x {} its "
      "storages are extrapolated, and kernels are those of the nearest of these sizes",
      batch, least, most, size.batch, size.seq);
}

Graph at_size(const Graph& graph, Size size) {
  if (is_own(graph, size)) return graph;
  if (!has_size(graph, size))
    throw UserError(fmt::format("--batch {} --seq {}: {} is no graph of this size", size.batch,
                                size.seq, graph.name));
  return Sizer(graph, size).run();
}

}  // namespace ac_advisor::graph
