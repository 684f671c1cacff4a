#include "layouts.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace ac_advisor::passes::compile {
namespace {

using ir::Shape;
using Strides = std::vector<std::int64_t>;
constexpr std::size_t heads = 1, tokens = 2;

/// A load of a buffer (dependencies.MemoryDep): at which place, and how far apart neighbours of
/// each dimension are.
using Load = std::tuple<NodeId, std::int64_t, Strides>;
using Loads = std::set<Load>;

Strides contiguous(const Shape& shape) {
  Strides strides(shape.rank(), 1);
  for (std::size_t i = shape.rank(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Of a tensor of shape `from` as it is seen in shape `to`, of as many elements.
Strides viewed(const Strides& strides, const Shape& from, const Shape& to) {
  const Strides places = contiguous(to);
  Strides seen(to.rank(), 0);
  for (std::size_t i = 0; i < to.rank(); ++i) {
    if (to[i] == 1) continue;
    std::int64_t rest = places[i];
    for (std::size_t k = from.rank(); k-- > 0; rest /= from[k])
      seen[i] += rest % from[k] * strides[k];
  }
  return seen;
}

/// Of an operand beside others, in their shape.
Strides broadcast(const Strides& strides, const Shape& from, const Shape& to) {
  Strides wide(to.rank(), 0);
  const std::size_t added = to.rank() - std::min(to.rank(), from.rank());
  for (std::size_t i = added; i < to.rank(); ++i)
    if (from[i - added] > 1) wide[i] = strides[i - added];
  return wide;
}

class Layouts {
 public:
  Layouts(const JointGraph& graph, const Realized& realized)
      : g_(graph), m_(realized), swapped_(graph.nodes.size(), false) {
    for (NodeId n = 0; n < g_.size(); ++n) swapped_[at(n)] = node(n).swapped;
  }

  std::vector<bool> run() {
    std::vector<NodeId> undecided;
    decided_.assign(g_.nodes.size(), true);
    for (NodeId n = 0; n < g_.size(); ++n) {
      if (!m_.needed(n) || m_.is_given(n)) continue;
      if (m_.realized(n) && is_flexible(n)) {
        decided_[at(n)] = false;
        swapped_[at(n)] = false;  // as it is seen until then
        undecided.push_back(n);
      }
      if (is_attention(node(n).target)) attend(n);
      if (node(n).target == Target::mm && node(n).shape.rank() == 3) multiply(n);
      if (node(n).target == Target::getitem && is_attention(node(node(n).inputs[0]).target))
        follow_operand(n);
    }
    for (NodeId n : undecided)
      if (!decided_[at(n)]) decide(n);
    for (NodeId n = 0; n < g_.size(); ++n)
      if (m_.is_view(n)) swapped_[at(n)] = swapped(n);
    return std::move(swapped_);
  }

 private:
  static std::size_t at(NodeId n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] const Node& node(NodeId n) const { return g_.node(n); }

  [[nodiscard]] bool is_flexible(NodeId n) const {
    const Node& made = node(n);
    return made.shape.rank() == 4 && m_.sort_of(n) == Sort::pointwise && !m_.is_output(n) &&
           !m_.is_result(n) && !adds_into(made.target);
  }

  /// As it is seen through views.
  [[nodiscard]] bool swapped(NodeId n) const {
    if (m_.is_given(n) || !m_.is_view(n)) return swapped_[at(n)];
    const Node& view = node(n);
    if (view.target == Target::permute && view.index == permuted::heads)
      return !swapped(view.inputs[0]);
    const bool turned = view.target == Target::permute && view.index == permuted::rows;
    const bool same = view.target == Target::expand && view.shape == node(view.inputs[0]).shape;
    const bool part = view.target == Target::slice || view.target == Target::getitem;
    return (part || turned || same) && swapped(view.inputs[0]);
  }

  void attend(NodeId call) {
    const bool asks = !node(call).recomputed || is_attention_backward(node(call).target);
    for (NodeId in : node(call).inputs) {
      const NodeId whole = m_.buffer(in);
      if (decided_[at(whole)]) continue;
      if (asks && !m_.at_once(whole)) {
        swapped_[at(whole)] = node(whole).swapped;
        decided_[at(whole)] = true;
      } else {
        decide(whole);
      }
    }
  }
  /// What a product of heads reads through views is frozen as it was traced new, heads first
  /// (ir.py: convert_to_reinterpret_view).
  void multiply(NodeId product) {
    for (NodeId in : node(product).inputs) {
      const NodeId whole = m_.buffer(in);
      decided_[at(whole)] = true;
    }
  }
  /// What attention returns lies as what it attends with, of the memory-efficient kernel tokens
  /// before heads.
  void follow_operand(NodeId output) {
    const Node& call = node(node(output).inputs[0]);
    const bool backward = is_attention_backward(call.target);
    if (node(output).shape.rank() != 4 || node(output).index > 2) return;
    if (!backward && node(output).index > 0) return;
    if (node(output).target == Target::getitem &&
        (call.target == Target::sdpa_efficient || call.target == Target::sdpa_efficient_backward)) {
      swapped_[at(output)] = true;
      return;
    }
    const std::size_t operand = backward ? static_cast<std::size_t>(node(output).index) + 1 : 0;
    swapped_[at(output)] = swapped(call.inputs[operand]);
  }

  void decide(NodeId n) {
    swapped_[at(n)] = false;
    decided_[at(n)] = true;
    const Shape& shape = node(n).shape;
    if (shape[heads] == 1 || shape[tokens] == 1) return;
    int heads_first = 0, tokens_first = 0;  // within the other
    for (const auto& [buffer, place, strides] : loads_within(n)) {
      const std::int64_t h = strides[heads], t = strides[tokens];
      heads_first += t == 0 || h < t ? 1 : 0;
      tokens_first += h == 0 || t < h ? 1 : 0;
    }
    swapped_[at(n)] = heads_first > tokens_first;
  }

  [[nodiscard]] Loads loads_of(NodeId n) const {
    if (!m_.is_given(n) && !m_.realized(n)) return loads_within(n);
    Strides strides = contiguous(node(n).shape);
    if (swapped_[at(n)]) {
      const Shape& s = node(n).shape;
      strides[heads] = s[3];
      strides[tokens] = s[heads] * s[3];
    }
    return {{n, 0, strides}};
  }

  /// What a node's own kernel loads, where nothing between is in memory.
  [[nodiscard]] Loads loads_within(NodeId n) const {
    const Node& made = node(n);
    Loads loads;
    std::int64_t start = 0;
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const NodeId in = made.inputs[i];
      const Shape& from = node(in).shape;
      for (auto [buffer, place, strides] : loads_of(in)) {
        switch (made.target) {
          case Target::permute:
            if (made.index == permuted::heads)
              std::swap(strides[heads], strides[tokens]);
            else if (made.index == permuted::rows)
              std::swap(strides[2], strides[3]);
            else
              std::swap(strides[0], strides[1]);
            break;
          case Target::slice:
          case Target::getitem:
            place += made.target == Target::slice ? made.index : made.index * made.shape.back();
            break;
          case Target::cat:
            place -= start;
            strides = broadcast(strides, from, made.shape);
            break;
          case Target::slice_scatter:
            if (i == 1) place -= made.index;
            break;
          case Target::view:
          case Target::unsqueeze:
            strides = viewed(strides, from, made.shape);
            break;
          case Target::select:
            strides.pop_back();
            place += made.index;
            break;
          default:
            strides = broadcast(strides, from, made.shape);
            break;
        }
        strides.resize(made.shape.rank(), 0);
        loads.emplace(buffer, place, std::move(strides));
      }
      if (made.target == Target::cat) start += from.back();
    }
    return loads;
  }

  const JointGraph& g_;
  const Realized& m_;
  std::vector<bool> swapped_, decided_;
};

}  // namespace

std::vector<bool> swapped_in_memory(const JointGraph& graph, const Realized& realized) {
  return Layouts(graph, realized).run();
}

std::vector<bool> swapped_as_traced(const JointGraph& graph) {
  std::vector<bool> swapped;
  for (const Node& node : graph.nodes) swapped.push_back(node.swapped);
  return swapped;
}

}  // namespace ac_advisor::passes::compile
