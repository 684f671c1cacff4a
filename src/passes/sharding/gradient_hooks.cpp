#include "gradient_hooks.hpp"

#include <algorithm>
#include <tuple>

namespace ac_advisor::passes {

using ir::no_id;
using ir::OpId;
using ir::Phase;
using ir::ValueId;

ir::OpId GradientHooks::emit(ir::OpKind kind, ir::ModulePath module, std::vector<ValueId> in,
                             std::vector<ValueId> out) {
  const OpId id = p_.emit(kind, Phase::backward, module, in, out);
  p_.op(id).group = next_group_--;
  return id;
}

std::vector<std::pair<OpId, std::size_t>> GradientHooks::in_order_of_gradients() const {
  // Of one node a bias's comes first: a weight's has to be transposed, by a node of its own.
  std::vector<std::tuple<OpId, bool, OpId, std::size_t>> sorted;
  for (std::size_t i = 0; i < s_.parameters.size(); ++i) {
    const ValueId g = s_.parameters[i].gradient;
    if (g == no_id) continue;
    const OpId producer = p_.value(p_.root(g)).producer;
    OpId node = producer;
    while (node > 0 && p_.op(node - 1).group == p_.op(producer).group) --node;
    sorted.emplace_back(node, p_.value(g).shape.rank() > 1, producer, i);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::pair<OpId, std::size_t>> ready;
  for (const auto& [node, transposed, producer, i] : sorted) ready.emplace_back(producer, i);
  return ready;
}

void GradientHooks::rewrite() {
  const OpId first = s_.micro_begin.back();
  const std::vector<ir::Op> old(p_.ops.begin() + first, p_.ops.end());
  ready_ = in_order_of_gradients();
  p_.ops.resize(static_cast<std::size_t>(first));
  begin_forward();
  std::size_t next = 0;
  std::vector<OpId> moved;  // where the old ops stand now
  bool in_backward = false;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (!in_backward && old[i].phase >= Phase::backward) {
      in_backward = true;
      begin_backward();
    }
    const auto id = static_cast<OpId>(p_.ops.size());
    for (ValueId v : p_.outputs(old[i])) p_.value(v).producer = id;
    p_.ops.push_back(old[i]);
    moved.push_back(id);
    ir::Op& op = p_.ops.back();
    if (op.forward >= first) op.forward = moved[static_cast<std::size_t>(op.forward - first)];
    const bool group_ends = i + 1 == old.size() || old[i + 1].group != old[i].group;
    if (!group_ends) continue;
    for (; next < ready_.size() && ready_[next].first <= first + static_cast<OpId>(i); ++next)
      on_gradient(ready_[next].second, s_.parameters[ready_[next].second].gradient);
  }
  end_backward();
  if (keeps_gradients()) return;
  for (Parameter& parameter : s_.parameters) parameter.gradient = no_id;
}

}  // namespace ac_advisor::passes
