#include "float8_forms.hpp"

#include <algorithm>

#include "reduction_splits.hpp"

namespace ac_advisor::passes::compile {
namespace {

using ir::Shape;

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
    const std::int64_t each = (elements + splits - 1) / splits;
    const std::int64_t again = lies_apart(whole, each) ? outer_reduction_splits(each, splits) : 1;
    const NodeId from = again > 1 ? partial(in, old_.node(n), {splits, again}) : in;
    return partial(from, old_.node(n), {splits});
  }

  /// Visits what `from` is made of, each node once, and what one is made of where `visit` says so.
  template <class Visit>
  void walk_back(NodeId from, Visit visit) const {
    std::vector<bool> seen(old_.nodes.size(), false);
    std::vector<NodeId> rest{from};
    while (!rest.empty()) {
      const NodeId n = rest.back();
      rest.pop_back();
      if (seen[at(n)]) continue;
      seen[at(n)] = true;
      if (!visit(n)) continue;
      const auto& inputs = old_.node(n).inputs;
      rest.insert(rest.end(), inputs.begin(), inputs.end());
    }
  }

  /// extract_input_node_reduction_ranges (dependencies.py): the rows of which one that the operand
  /// is made of is a reduction already, if all such have the same and they are all of it.
  [[nodiscard]] Shape rows_of_operands(NodeId whole) const {
    Shape found{};
    bool differ = false;
    walk_back(whole, [&](NodeId n) {
      if (realized_.is_given(n) || realized_.is_output(n)) return false;
      const Sort sort = realized_.sort_of(n);
      if (sort == Sort::pointwise) return true;
      const Node& node = old_.node(n);
      if (sort == Sort::library || node.target == Target::max) return false;
      const bool all = old_.node(node.inputs[0]).shape.numel() == old_.node(whole).shape.numel();
      differ = differ || !all || (found.rank() > 0 && found != node.shape);
      found = node.shape;
      return false;
    });
    return differ ? Shape{} : found;
  }

  /// Whether most of what a part of so many elements is made of is not of neighbours: numbers of a
  /// row, beside what has all its columns.
  [[nodiscard]] bool lies_apart(NodeId whole, std::int64_t each) const {
    const std::int64_t elements = old_.node(whole).shape.numel();
    std::int64_t inner = 0, outer = 0;
    walk_back(whole, [&](NodeId n) {
      if (!realized_.is_given(n) && !realized_.realized(n)) return true;
      const Node& node = old_.node(n);
      const std::int64_t size = node.shape.numel();
      if (size == 1) return false;
      const bool one_column = node.shape.back() == 1;
      const bool same_for_each_part = size < elements && !one_column && each % size == 0;
      if (!same_for_each_part) ++(one_column ? outer : inner);
      return false;
    });
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

}  // namespace ac_advisor::passes::compile
