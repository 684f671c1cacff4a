#include "unit.hpp"

#include <algorithm>
#include <set>

#include "kernels.hpp"
#include "own_graph.hpp"
#include "partition.hpp"

namespace ac_advisor::passes::compile {
namespace {

/// torch/_inductor/utils.py: is_pointwise_use.
bool is_pointwise_use(const JointGraph& graph, NodeId user) {
  const Node& node = graph.node(user);
  const auto& users = node.users;
  if (row(node.target).view || node.target == Target::getitem)
    return std::all_of(users.begin(), users.end(),
                       [&](NodeId next) { return is_pointwise_use(graph, next); });
  return row(node.target).recomputable && node.target != Target::sum &&
         node.target != Target::mean && node.target != Target::index &&
         node.target != Target::gather;
}

/// fx_passes/post_grad.py: addmm. A product that one sum alone reads adds onto the other operand,
/// unless pointwise ops alone read the sum (should_prefer_unfused_addmm).
void add_within_products(JointGraph& graph) {
  for (Node& node : graph.nodes) {
    if (node.target != Target::add || node.inputs.size() != 2 || node.shape.rank() != 2) continue;
    if (!node.users.empty() && std::all_of(node.users.begin(), node.users.end(), [&](NodeId user) {
          return is_pointwise_use(graph, user);
        }))
      continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const Node& product = graph.node(node.inputs[i]);
      if (product.target != Target::mm || product.users.size() != 1) continue;
      node.target = Target::addmm;
      node.inputs = {node.inputs[1 - i], product.inputs[0], product.inputs[1]};
      break;
    }
  }
}

/// Under a checkpoint, an op that may draw random numbers is recomputed with the state that it had
/// (partitioners.py: functionalize_rng_ops).
bool recomputes_attention(const JointGraph& joint) {
  return std::any_of(joint.nodes.begin(), joint.nodes.end(),
                     [](const Node& node) { return node.recomputed && is_attention(node.target); });
}

class OwnOrder {
 public:
  OwnOrder(const JointGraph& joint, const std::vector<NodeId>& given)
      : joint_(joint),
        draws_again_(recomputes_attention(joint)),
        given_(given.begin(), given.end()),
        moved_(joint.nodes.size(), -1),
        needed_(joint.nodes.size(), false),
        seen_(joint.nodes.size(), false) {
    own_.graph.nodes.reserve(joint.nodes.size());
    for (NodeId n : given) own_.given.push_back(copy(n, true));
  }

  OwnGraph run(const std::vector<NodeId>& results, NodeId first) {
    for (NodeId n : results) {
      if (n < 0) continue;
      needed_[at(n)] = true;
      results_.insert(n);
      if (row(joint_.node(n).target).view) results_.insert(joint_.node(n).inputs[0]);
    }
    for (NodeId n = joint_.size(); n-- > 0;) {
      if (!needed_[at(n)] || moved_[at(n)] >= 0) continue;
      for (NodeId in : joint_.node(n).inputs) needed_[at(in)] = true;
    }
    for (NodeId n = first; n < joint_.size(); ++n)
      if (needed_[at(n)]) insert(n);
    for (NodeId n : results) {
      if (n >= 0) insert(n);
      own_.results.push_back(n < 0 ? n : moved_[at(n)]);
    }
    return std::move(own_);
  }

 private:
  static std::size_t at(NodeId n) { return static_cast<std::size_t>(n); }

  NodeId copy(NodeId n, bool given) {
    Node node = joint_.node(n);
    node.users.clear();
    if (given) node.inputs.clear();
    for (NodeId& in : node.inputs)
      in = copied_for(n, in) ? copy_of(moved_[at(in)]) : moved_[at(in)];
    moved_[at(n)] = append(own_.graph, std::move(node));
    return moved_[at(n)];
  }

  /// Keys and values of each query's head are a view of what repeats them, and attention wants them
  /// in memory: each call copies them for itself (ir.py: require_exact_strides, copy_input), but
  /// for those that several calls and more than one load make (realize_hint).
  [[nodiscard]] bool copied_for(NodeId n, NodeId in) const {
    const Node& call = joint_.node(n);
    if (call.target == Target::sdpa_efficient_backward && joint_.node(in).target == Target::expand)
      return is_made_here(in);
    if (!is_attention(call.target) || joint_.node(in).target != Target::view) return false;
    if (draws_again_) return false;  // graphsafe_run_with_rng_state takes views
    if (given_.contains(in) || results_.contains(in)) return false;
    const NodeId repeated = joint_.node(in).inputs[0];
    if (joint_.node(repeated).target != Target::clone || given_.contains(repeated) ||
        results_.contains(repeated))
      return false;
    const auto& users = joint_.node(in).users;
    const auto calls = std::count_if(users.begin(), users.end(), [&](NodeId user) {
      return needed_[at(user)] && is_attention(joint_.node(user).target);
    });
    NodeId source = repeated;
    while (joint_.node(source).target == Target::clone || row(joint_.node(source).target).view)
      source = joint_.node(source).inputs[0];
    const bool one_load = given_.contains(source) || !row(joint_.node(source).target).recomputable;
    return calls == 1 || one_load;
  }
  /// The mask of the memory-efficient kernel's backward, where it is computed again: the forward's
  /// may lie once for all heads, the backward's is written out for each (lowering.py:
  /// sdpa_constraint, effn_attn_fwd_bias).
  [[nodiscard]] bool is_made_here(NodeId mask) const {
    return !given_.contains(mask) && !given_.contains(joint_.node(mask).inputs[0]);
  }
  NodeId copy_of(NodeId view) {
    Node copied = own_.graph.node(view);
    copied.target = Target::clone;
    copied.inputs = {view};
    copied.users.clear();
    return append(own_.graph, std::move(copied));
  }

  void insert(NodeId n) {
    if (moved_[at(n)] >= 0) return;
    std::vector<NodeId>& missing = missing_;
    missing.assign(1, n);
    seen_[at(n)] = true;
    for (std::size_t i = 0; i < missing.size(); ++i)
      for (NodeId in : joint_.node(missing[i]).inputs) {
        if (moved_[at(in)] >= 0 || seen_[at(in)]) continue;
        seen_[at(in)] = true;
        missing.push_back(in);
      }
    std::sort(missing.begin(), missing.end());
    for (NodeId next : missing) {
      if (moved_[at(next)] >= 0) continue;  // an output of several, raised
      copy(next, false);
      if (joint_.node(next).has_tensor) continue;
      for (NodeId user : joint_.node(next).users)  // raise_getitems
        if (moved_[at(user)] < 0) copy(user, false);
    }
  }

  const JointGraph& joint_;
  bool draws_again_;
  std::set<NodeId> given_, results_;
  OwnGraph own_;
  std::vector<NodeId> moved_, missing_;
  std::vector<bool> needed_, seen_;
};

OwnGraph backward_graph(JointGraph joint, const std::vector<NodeId>& given) {
  add_within_products(joint);
  NodeId first = joint.size();
  for (NodeId tangent : joint.all(Target::tangent))
    for (NodeId user : joint.node(tangent).users) first = std::min(first, user);
  return OwnOrder(joint, given).run(joint.backward_outputs, first);
}

/// Of what the cut saves, what the backward reads: partitioners.py (v2.11),
/// _extract_fwd_bwd_modules: "filter out saved values that don't actually end up being used".
std::vector<NodeId> used_in_backward(const JointGraph& joint, const std::vector<NodeId>& saved) {
  const std::set<NodeId> stops(saved.begin(), saved.end());
  std::vector<bool> seen(joint.nodes.size(), false);
  std::vector<NodeId> rest;
  const auto visit = [&](NodeId n) {
    if (n < 0 || seen[static_cast<std::size_t>(n)]) return;
    seen[static_cast<std::size_t>(n)] = true;
    if (!stops.contains(n)) rest.push_back(n);
  };
  for (NodeId n : joint.backward_outputs) visit(n);
  while (!rest.empty()) {
    const NodeId n = rest.back();
    rest.pop_back();
    for (NodeId in : joint.node(n).inputs) visit(in);
  }
  std::vector<NodeId> used;
  for (NodeId n : saved)
    if (seen[static_cast<std::size_t>(n)]) used.push_back(n);
  return used;
}

/// Until the last launch has run.
void hold(ir::CompiledGraph& graph, std::int32_t number) {
  ir::CompiledGraph::Launch launch;
  launch.kind = ir::OpKind::hold;
  launch.inputs = {number};
  graph.launches.push_back(std::move(launch));
}

/// AOTAutograd fills in zeros for the gradient of an output that reached no loss: of the last that
/// the graph is given (runtime_wrappers.py: materialized by autograd.Function).
void make_zeros(ir::CompiledGraph& graph, const Node& tangent) {
  const std::int32_t number = --graph.given;
  graph.made.insert(graph.made.begin(), {tangent.shape, tangent.dtype});
  ir::CompiledGraph::Launch launch;
  launch.kind = ir::OpKind::fill;
  launch.attributes = ir::Number{0};
  launch.leaf = ir::Module::loss;
  launch.outputs = {number};
  graph.launches.insert(graph.launches.begin(), std::move(launch));
  hold(graph, number);  // an argument of the node's backward
}

/// A recorded graph reads what it is given at an address of its own (torch/_inductor/
/// cudagraph_trees.py, v2.11: _allocate_and_copy_recording_inputs): the zeros that
/// `make_zeros` has put first are copied there.
void copy_zeros(ir::CompiledGraph& graph, const Node& tangent) {
  const std::int32_t own = graph.given;
  graph.made.push_back({tangent.shape, tangent.dtype});
  const auto zeros = static_cast<std::int32_t>(graph.made.size()) + graph.given - 1;
  graph.launches.front().outputs = {zeros};
  graph.launches.back().inputs = {zeros};  // held
  ir::CompiledGraph::Launch copy;
  copy.kind = ir::OpKind::clone;
  copy.leaf = ir::Module::loss;
  copy.inputs = {zeros};
  copy.outputs = {own};
  graph.launches.insert(graph.launches.begin() + 1, std::move(copy));
}

}  // namespace

Unit compile_unit(JointGraph joint, double budget, bool recorded, Runner runner) {
  const std::vector<NodeId> inputs = joint.all(Target::placeholder),
                            tangents = joint.all(Target::tangent);
  std::vector<NodeId> saved;
  for (NodeId n : saved_values(joint, budget))
    if (joint.node(n).target != Target::placeholder) saved.push_back(n);
  saved = used_in_backward(joint, saved);

  std::vector<NodeId> returned = joint.forward_outputs;
  returned.insert(returned.end(), saved.begin(), saved.end());
  Unit unit;
  const OwnGraph first = OwnOrder(joint, inputs).run(returned, 0);
  unit.forward = write_kernels(first.graph, first.given, std::vector<bool>(inputs.size(), false),
                               first.results, runner);

  std::vector<NodeId> given = inputs;
  given.insert(given.end(), saved.begin(), saved.end());
  given.insert(given.end(), tangents.begin(), tangents.end());
  // Donated buffers: what was saved and is no memory of the forward's outputs
  // (torch/_functorch/_aot_autograd/graph_compile.py, v2.11: collect_bw_donated_buffer_idxs).
  std::vector<bool> donated(given.size(), false);
  const auto whole = [&](NodeId n) {
    while (row(joint.node(n).target).view || joint.node(n).target == Target::wait ||
           is_alias(joint.node(n).target))
      n = joint.node(n).inputs[0];
    return n;
  };
  std::set<NodeId> outputs(inputs.begin(), inputs.end());  // that is waited for within
  for (NodeId n : joint.forward_outputs) outputs.insert(whole(n));
  for (std::size_t i = 0; i < saved.size(); ++i)
    donated[inputs.size() + i] = !outputs.contains(whole(saved[i]));
  std::vector<Node> no_loss;  // gradients of outputs that reached none
  for (std::size_t i = joint.returns_loss ? tangents.size() : 0; i-- > 1;)
    no_loss.push_back(joint.node(tangents[i]));
  const OwnGraph own = backward_graph(std::move(joint), given);
  unit.backward = write_kernels(own.graph, own.given, donated, own.results, runner);
  for (const Node& tangent : no_loss) {
    make_zeros(unit.backward, tangent);
    if (recorded) copy_zeros(unit.backward, tangent);
  }
  return unit;
}

}  // namespace ac_advisor::passes::compile
