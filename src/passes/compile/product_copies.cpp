#include "product_copies.hpp"

namespace ac_advisor::passes::compile {

std::optional<OwnGraph> with_copies_for_products(const JointGraph& old,
                                                 std::span<const NodeId> given,
                                                 std::span<const NodeId> results,
                                                 const Realized& realized,
                                                 const std::vector<bool>& swapped) {
  std::vector<bool> copied(old.nodes.size(), false);
  const auto is_product = [](const Node& node) {
    return node.target == Target::mm || node.target == Target::addmm;
  };
  bool any = false;
  for (const Node& node : old.nodes) {
    if (!is_product(node) || node.shape.rank() == 3) continue;
    for (NodeId n : node.inputs)
      for (; !realized.is_given(n) && realized.is_view(n); n = old.node(n).inputs[0]) {
        const Node& view = old.node(n);
        const NodeId in = view.target == Target::view ? view.inputs[0] : n;
        if (in == n || view.shape.rank() == 4 || old.node(in).shape.rank() != 4) continue;
        copied[static_cast<std::size_t>(n)] = swapped[static_cast<std::size_t>(in)];
        any = any || swapped[static_cast<std::size_t>(in)];
      }
  }
  if (!any) return std::nullopt;
  OwnGraph with;
  std::vector<NodeId> moved, copies(old.nodes.size(), -1);
  for (NodeId n = 0; n < old.size(); ++n) {
    Node node = old.node(n);
    const bool product = is_product(node) || row(node.target).view;
    for (NodeId& in : node.inputs) {
      const NodeId copy = product ? copies[static_cast<std::size_t>(in)] : -1;
      in = copy >= 0 ? copy : moved[static_cast<std::size_t>(in)];
    }
    moved.push_back(append(with.graph, std::move(node)));
    if (!copied[static_cast<std::size_t>(n)]) continue;
    Node copy = old.node(n);
    copy.target = Target::clone;
    copy.inputs = {moved.back()};
    copies[static_cast<std::size_t>(n)] = append(with.graph, std::move(copy));
  }
  for (NodeId n : given) with.given.push_back(moved[static_cast<std::size_t>(n)]);
  for (NodeId n : results) with.results.push_back(n < 0 ? n : moved[static_cast<std::size_t>(n)]);
  return with;
}

}  // namespace ac_advisor::passes::compile
