#include "float8_forms.hpp"

#include <algorithm>
#include <cstdlib>

namespace ac_advisor::passes::compile {
namespace {

using ir::Shape;

constexpr std::int64_t multiprocessors = 132, threads = 2048;
/// What a thread adds at least and at most, and what is not split at all.
constexpr std::int64_t least = 32, most = 512, unsplit = 8192;

std::int64_t quotient(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t nearest_divisor(std::int64_t of, std::int64_t to) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d * d <= of; ++d) {
    if (of % d != 0) continue;
    for (const std::int64_t one : {d, of / d})
      if (std::abs(one - to) < std::abs(best - to) ||
          (std::abs(one - to) == std::abs(best - to) && one < best))
        best = one;
  }
  return best;
}

class Forms {
 public:
  Forms(const JointGraph& old, const Realized& realized)
      : old_(old), realized_(realized), moved_(old.nodes.size(), -1) {}

  OwnGraph run(std::span<const NodeId> given, std::span<const NodeId> results) {
    for (NodeId n = 0; n < old_.size(); ++n) {
      Node node = old_.node(n);
      for (NodeId& in : node.inputs) in = moved_[at(in)];
      if (!realized_.is_given(n) && node.target == Target::scaled_mm)
        for (std::size_t i = 0; i < 2; ++i)
          if (!in_memory(old_.node(n).inputs[i])) node.inputs[i] = copy_of(node.inputs[i], node);
      if (!realized_.is_given(n) && node.target == Target::max)
        node.inputs[0] = in_steps(n, node.inputs[0]);
      moved_[at(n)] = append(with_.graph, std::move(node));
    }
    for (NodeId n : given) with_.given.push_back(moved_[at(n)]);
    for (NodeId n : results) with_.results.push_back(n < 0 ? n : moved_[at(n)]);
    return std::move(with_);
  }

 private:
  static std::size_t at(NodeId n) { return static_cast<std::size_t>(n); }

  [[nodiscard]] bool in_memory(NodeId n) const {
    const NodeId whole = realized_.buffer(n);
    return realized_.is_given(whole) || realized_.realized(whole);
  }
  NodeId copy_of(NodeId n, const Node& reader) {
    Node copied = with_.graph.node(n);
    copied.target = Target::copy;
    copied.inputs = {n};
    copied.module = reader.module;
    return append(with_.graph, std::move(copied));
  }
  NodeId partial(NodeId of, const Node& last, const Shape& shape) {
    Node part = last;
    part.target = Target::amax;
    part.inputs = {of};
    part.shape = shape;
    part.dtype = DType::f32;
    return append(with_.graph, std::move(part));
  }

  /// What the largest of all is found among.
  NodeId in_steps(NodeId n, NodeId in) {
    const NodeId whole = old_.node(n).inputs[0];
    const std::int64_t elements = old_.node(whole).shape.numel();
    const std::int64_t splits = inner_reduction_splits(elements, 1);
    if (splits == 1) return in;
    if (const Shape rows = rows_of_operands(whole); rows.rank() > 0)
      return partial(in, old_.node(n), rows);
    const std::int64_t each = quotient(elements, splits);
    NodeId from = in;
    if (splits < multiprocessors * 2 * 32 && each > least && lies_apart(whole, each)) {
      const std::int64_t again = outer_reduction_splits(each, splits);
      if (again > 1) from = partial(from, old_.node(n), {splits, again});
    }
    return partial(from, old_.node(n), {splits});
  }

  /// extract_input_node_reduction_ranges (dependencies.py): the rows of which one that the operand
  /// is made of is a reduction already, if all such have the same and they are all of it.
  [[nodiscard]] Shape rows_of_operands(NodeId whole) const {
    Shape found{};
    bool differ = false;
    std::vector<bool> seen(old_.nodes.size(), false);
    std::vector<NodeId> rest{whole};
    while (!rest.empty()) {
      const NodeId n = rest.back();
      rest.pop_back();
      if (seen[at(n)]) continue;
      seen[at(n)] = true;
      if (realized_.is_given(n) || realized_.is_output(n)) continue;
      const Node& node = old_.node(n);
      const Sort sort = realized_.sort_of(n);
      if (sort == Sort::library) continue;
      if (sort != Sort::pointwise) {
        if (node.target == Target::max) continue;
        const bool all = old_.node(node.inputs[0]).shape.numel() == old_.node(whole).shape.numel();
        differ = differ || !all || (found.rank() > 0 && found != node.shape);
        found = node.shape;
        continue;
      }
      rest.insert(rest.end(), node.inputs.begin(), node.inputs.end());
    }
    return differ ? Shape{} : found;
  }

  /// Whether most of what a part of so many elements is made of is not of neighbours: numbers of a
  /// row, beside what has all its columns.
  [[nodiscard]] bool lies_apart(NodeId whole, std::int64_t each) const {
    const std::int64_t elements = old_.node(whole).shape.numel();
    std::int64_t inner = 0, outer = 0;
    std::vector<bool> seen(old_.nodes.size(), false);
    std::vector<NodeId> rest{whole};
    while (!rest.empty()) {
      const NodeId n = rest.back();
      rest.pop_back();
      if (seen[at(n)]) continue;
      seen[at(n)] = true;
      const Node& node = old_.node(n);
      if (!realized_.is_given(n) && !realized_.realized(n)) {
        rest.insert(rest.end(), node.inputs.begin(), node.inputs.end());
        continue;
      }
      const std::int64_t size = node.shape.numel();
      if (size == 1) continue;
      const bool one_column = node.shape.back() == 1;
      if (size < elements && !one_column && each % size == 0) continue;  // the same for each part
      ++(one_column ? outer : inner);
    }
    return inner + outer > 0 && inner <= outer;
  }

  const JointGraph& old_;
  const Realized& realized_;
  std::vector<NodeId> moved_;
  OwnGraph with_;
};

}  // namespace

std::optional<OwnGraph> with_float8_forms(const JointGraph& graph, std::span<const NodeId> given,
                                          std::span<const NodeId> results,
                                          const Realized& realized) {
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                               [](const Node& node) { return node.target == Target::scaled_mm; });
  if (!any) return std::nullopt;
  return Forms(graph, realized).run(given, results);
}

std::int64_t inner_reduction_splits(std::int64_t elements, std::int64_t outputs) {
  constexpr std::int64_t of_block = 256;
  if (outputs >= 2 * multiprocessors || elements <= unsplit) return 1;
  const std::int64_t all = elements * outputs, device = multiprocessors * threads;
  std::int64_t split = most;
  if (all <= least * device) {
    split = least;
  } else if (all < most * device) {
    const std::int64_t blocks = quotient(device / (2 * of_block), outputs);
    split = quotient(elements, of_block * blocks);
    const std::int64_t even = nearest_divisor(elements, split);
    if (std::abs(even - split) < 30) split = std::max(even, least);
  } else if (const std::int64_t even = nearest_divisor(elements, most);
             std::abs(even - most) < 50) {
    split = even;
  }
  return quotient(elements, split * of_block);
}

std::int64_t outer_reduction_splits(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t of_block = 256, of_thread = 4, columns_a_block = 128;
  if (rows <= least || columns >= multiprocessors * 2 * 32) return 1;
  const std::int64_t device = multiprocessors * threads;
  std::int64_t split = most;
  if (rows * columns < least * device) {
    split = least;
  } else if (rows * columns < most * device) {
    const std::int64_t blocks = quotient(device / of_block, quotient(columns, columns_a_block));
    split = quotient(rows, of_thread * blocks);
    const std::int64_t even = nearest_divisor(rows, split);
    if (std::abs(split - even) < 20) split = std::max(even, least);
  } else if (const std::int64_t even = nearest_divisor(rows, most); std::abs(even - most) < 50) {
    split = even;
  }
  return quotient(rows, of_thread * split);
}

}  // namespace ac_advisor::passes::compile
