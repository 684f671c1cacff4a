// A backward in two parts, as torch.distributed.pipelining runs it (PyTorch v2.11, _backward.py):
// stage_backward_input is autograd.grad of the stage's input with retain_graph, and keeps what
// reaches the nodes that read weights; stage_backward_weight runs those nodes for their weights, a
// group after another. A node of the graph lives as long as one that is nearer to the output, so
// most of what the forward saved is there until the last group is done.
#include "split_backward.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// get_param_groups: parameters, and the nodes that read them on the way to the stage's input.
struct Group {
  std::vector<std::size_t> parameters;
  std::vector<OpId> nodes;     ///< "intermediates"
  std::vector<OpId> off_path;  ///< between these and the parameters
};

void add_once(std::vector<OpId>& list, OpId id) {
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

class SplitBackward {
 public:
  SplitBackward(StepProgram& step, Backward& backward, OpId first)
      : s_(step),
        p_(step.program),
        engine_(backward),
        first_(first),
        end_(static_cast<OpId>(p_.ops.size())),
        on_path_(p_.values.size(), false),
        saved_(static_cast<std::size_t>(end_ - first)),
        outlives_(saved_.size(), none) {}

  void run() {
    engine_.begin(first_);
    find_path();
    find_groups();
    find_lifetimes();
    inputs();
    s_.weight_begin.back() = static_cast<OpId>(p_.ops.size());
    weights();
  }

 private:
  static constexpr std::int32_t none = -1;

  [[nodiscard]] std::size_t at(OpId id) const { return static_cast<std::size_t>(id - first_); }
  [[nodiscard]] bool on_path(ValueId v) const {
    return on_path_[static_cast<std::size_t>(p_.root(v))];
  }
  /// Whether a gradient of the stage's input goes through the op's node.
  [[nodiscard]] bool is_node(OpId id) const {
    const Op& op = p_.op(id);
    const auto outputs = p_.outputs(op);
    return ir::row(op.kind).derive != nullptr &&
           std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return on_path(v); });
  }

  /// What depends on the stage's input.
  void find_path() {
    on_path_[static_cast<std::size_t>(p_.root(s_.ends.back().input))] = true;
    for (OpId id = first_; id < end_; ++id) {
      const Op& op = p_.op(id);
      const auto inputs = p_.inputs(op);
      if (ir::row(op.kind).derive == nullptr ||
          std::none_of(inputs.begin(), inputs.end(), [&](ValueId v) { return on_path(v); }))
        continue;
      for (ValueId v : p_.outputs(op))
        if (p_.value(v).requires_grad) on_path_[static_cast<std::size_t>(p_.root(v))] = true;
    }
  }

  void find_groups() {
    std::map<OpId, std::size_t> group_of;
    for (std::size_t i = 0; i < s_.parameters.size(); ++i) {
      if (s_.parameters[i].uses == 0 || !s_.parameters[i].trained) continue;
      Group found = readers(i);
      std::size_t index = groups_.size();
      for (OpId node : found.nodes)
        if (const auto known = group_of.find(node); known != group_of.end()) index = known->second;
      if (index == groups_.size()) groups_.emplace_back();
      Group& group = groups_[index];
      group.parameters.push_back(i);
      for (OpId node : found.nodes) add_once(group.nodes, node), group_of[node] = index;
      for (OpId op : found.off_path) add_once(group.off_path, op);
    }
    for (Group& group : groups_) {
      std::sort(group.nodes.rbegin(), group.nodes.rend());
      std::sort(group.off_path.rbegin(), group.off_path.rend());
    }
  }

  Group readers(std::size_t parameter) const {
    Group found;
    std::vector<ValueId> made{s_.parameters[parameter].value};
    for (OpId id = first_; id < end_; ++id) {
      const Op& op = p_.op(id);
      const auto inputs = p_.inputs(op);
      const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) {
        return std::find(made.begin(), made.end(), p_.root(v)) != made.end();
      });
      if (!reads || ir::row(op.kind).derive == nullptr) continue;
      if (is_node(id)) {
        found.nodes.push_back(id);
        continue;
      }
      found.off_path.push_back(id);
      for (ValueId v : p_.outputs(op)) made.push_back(p_.root(v));
    }
    return found;
  }

  /// The group with which the last node goes that refers to this one; none: with the output.
  void find_lifetimes() {
    for (std::size_t k = 0; k < groups_.size(); ++k)
      for (OpId node : groups_[k].nodes) outlives_[at(node)] = static_cast<std::int32_t>(k);
    for (OpId id = end_; id-- > first_;) {
      if (!is_node(id)) continue;
      for (ValueId v : p_.inputs(p_.op(id))) {
        const OpId maker = p_.value(p_.root(v)).producer;
        if (maker < first_ || maker >= end_) continue;
        outlives_[at(maker)] = std::max(outlives_[at(maker)], outlives_[at(id)]);
      }
    }
  }

  /// Runs a node, and notes what it reads of the forward: what it has saved.
  void visit(OpId id) {
    const std::size_t begin = p_.ops.size();
    engine_.visit(id);
    for (std::size_t i = begin; i < p_.ops.size(); ++i)
      for (ValueId v : p_.inputs(p_.ops[i])) {
        const OpId maker = p_.value(p_.root(v)).producer;
        if (maker >= first_ && maker < end_) add_once(saved_[at(id)], p_.root(v));
      }
  }

  /// stage_backward_input: the graph is retained, then the output lets go of its end.
  void inputs() {
    engine_.ask_for(on_path_);
    engine_.seed();
    for (OpId id = end_; id-- > first_;) {
      if (!is_node(id)) continue;
      const ValueId g = engine_.pending(p_.output(p_.op(id), 0));
      if (g != no_id && in_group(id)) {
        reached_[id] = g;
        engine_.keep(g);
      }
      visit(id);
    }
    engine_.note_input_gradient();
    std::vector<ValueId> last = saved_of(none);
    if (const ValueId g = s_.ends.back().input_gradient; g != no_id) last.push_back(g);
    engine_.hold(last);
    engine_.hold_seed();
  }
  [[nodiscard]] bool in_group(OpId id) const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
      return std::find(group.nodes.begin(), group.nodes.end(), id) != group.nodes.end();
    });
  }
  [[nodiscard]] std::vector<ValueId> saved_of(std::int32_t group) const {
    std::vector<ValueId> all;
    for (std::size_t i = 0; i < saved_.size(); ++i)
      if (outlives_[i] == group) all.insert(all.end(), saved_[i].begin(), saved_[i].end());
    return all;
  }

  /// stage_backward_weight, with what its local names hold until they are bound anew.
  void weights() {
    std::vector<bool> off_path = on_path_;
    off_path.flip();
    engine_.ask_for(off_path);
    std::vector<ValueId> names;  // of the group before: its gradient, what goes with it
    ValueId sum = no_id;
    std::vector<ValueId> products;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      const Group& group = groups_[k];
      hold(std::exchange(names, {}));
      std::vector<ValueId> used;
      for (OpId node : group.nodes) {
        const auto reached = reached_.find(node);
        if (reached == reached_.end()) continue;
        const ValueId copy = copy_of(node, reached->second);
        if (sum != no_id) hold({sum});
        sum = copy;
        used.insert(used.end(), {reached->second, copy});
        names = {reached->second};
        engine_.set_pending(p_.output(p_.op(node), 0), copy);
      }
      if (used.empty()) continue;
      const std::vector<ValueId> before = gradients_of(group);
      const std::size_t begin = p_.ops.size();
      for (OpId id : group.nodes) {
        visit(id);
        // release_variables: what it has saved does not wait for the node's end.
        used.insert(used.end(), saved_[at(id)].begin(), saved_[at(id)].end());
        saved_[at(id)].clear();
      }
      for (OpId id : group.off_path) engine_.visit(id);
      hold(used);
      hold(std::exchange(products, added_to(before, begin)));
      const std::vector<ValueId> gone = saved_of(static_cast<std::int32_t>(k));
      names.insert(names.end(), gone.begin(), gone.end());
    }
    names.insert(names.end(), products.begin(), products.end());
    if (sum != no_id) names.push_back(sum);
    hold(names);
  }
  void hold(const std::vector<ValueId>& values) {
    if (!values.empty()) engine_.hold(values);
  }

  /// sum(non_none_grads) begins with the number 0, so it is an addition.
  ValueId copy_of(OpId node, ValueId g) {
    const ir::Value like = p_.value(g);
    const ir::ModulePath module = p_.op(node).module;
    const ValueId copy = p_.make(like.shape, like.dtype, ir::Role::activation_grad, module);
    p_.value(copy).permuted = like.permuted;
    Op& op = p_.op(
        p_.emit(OpKind::add_scalar, ir::Phase::backward, module, {g}, {copy}, ir::Number{0.0}));
    op.group = engine_.next_group();
    op.forward = node;
    return copy;
  }

  [[nodiscard]] std::vector<ValueId> gradients_of(const Group& group) const {
    std::vector<ValueId> all;
    for (std::size_t i : group.parameters)
      if (s_.parameters[i].gradient != no_id) all.push_back(s_.parameters[i].gradient);
    return all;
  }
  /// Products that were added to these gradients: `dweights` has them until the next ones are made.
  [[nodiscard]] std::vector<ValueId> added_to(const std::vector<ValueId>& gradients,
                                              std::size_t begin) const {
    std::vector<ValueId> all;
    for (std::size_t i = begin; i < p_.ops.size(); ++i) {
      const Op& op = p_.ops[i];
      if (op.kind == OpKind::accumulate_inplace &&
          std::find(gradients.begin(), gradients.end(), p_.input(op, 0)) != gradients.end())
        all.push_back(p_.input(op, 1));
    }
    return all;
  }

  StepProgram& s_;
  ir::Program& p_;
  Backward& engine_;
  OpId first_, end_;
  std::vector<bool> on_path_;                ///< by value: what depends on the stage's input
  std::vector<std::vector<ValueId>> saved_;  ///< by op of the forward
  std::vector<std::int32_t> outlives_;
  std::vector<Group> groups_;        ///< in the order of parameters
  std::map<OpId, ValueId> reached_;  ///< of the groups' nodes: the gradients that reached them
};

}  // namespace

void split_backward(StepProgram& step, Backward& backward, OpId first) {
  const auto micro = static_cast<std::int64_t>((step.ends.size() - 1) / step.stages.size());
  const bool splits = step.schedule.splits(static_cast<std::int64_t>(step.chunk), micro);
  step.weight_begin.push_back(splits ? static_cast<OpId>(step.program.ops.size()) : no_id);
  // The first stage's input has no gradient: all of it is the weights' part.
  if (!splits || step.ends.back().input == no_id) return backward.run(first);
  SplitBackward(step, backward, first).run();
}

}  // namespace ac_advisor::passes
