#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::trace {

using NodeId = std::uint32_t;

/// The ranges a program opened, each path once. Bounded: where it is full, a range is counted under
/// "[others]" of its phase and window. Not thread-safe.
class RangeTree {
 public:
  struct Node {
    NodeId parent = 0;
    std::string name;  ///< empty: the same range in another phase
    Phase phase = Phase::other;
    Window window = Window::outside;
    bool in_engine = false;  ///< inside a node that autograd's engine runs
    bool told = false;       ///< inside this project's trainer, whose ranges tell every phase
    bool in_module = false;  ///< inside a range that torch.profiler names "nn.Module: …"
    NodeId block = 0;        ///< of a grafted node: the block that a checkpoint would be around
    std::int64_t entered = 0;
    std::int64_t host_ns = 0;
  };
  static constexpr NodeId root = 0;
  static constexpr std::size_t max_nodes = 16384;

  RangeTree();

  /// A range `name` opens inside `parent`. The name may carry what
  /// torch.autograd.profiler.emit_nvtx adds to it (", seq = 12").
  NodeId enter(NodeId parent, std::string_view name);
  /// An op of PyTorch runs inside `parent`: no range, but it may tell the phase.
  /// `recorded`: its results are recorded for autograd (it has a sequence number of its own).
  NodeId op(NodeId parent, std::string_view name, bool recorded);
  /// A thread of PyTorch's autograd engine works while `parent` is open.
  NodeId autograd_thread(NodeId parent);
  void left(NodeId node, std::int64_t host_ns);
  /// The range itself stands for a step of training.
  [[nodiscard]] bool is_step(NodeId node) const;
  /// A range that was entered as a step launched nothing: it is none.
  void not_a_step(NodeId node);
  /// An op that is recorded for autograd ran inside `node`, in a module.
  void module_ran(NodeId node);
  /// The modules of `node`, where the forward was, below `parent`, where its gradient is. What is
  /// recomputed inside belongs to the block: the topmost module that has siblings of its class.
  NodeId graft(NodeId parent, NodeId node);

  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] std::string path(NodeId id) const;
  [[nodiscard]] const Steps& steps() const { return steps_; }

 private:
  /// The modules around a node, outermost first.
  [[nodiscard]] std::vector<std::string> modules(NodeId node) const;
  NodeId child(NodeId parent, std::string_view name, Phase phase, Window window, bool in_engine);
  NodeId variant(NodeId parent, Phase phase, bool in_engine);
  NodeId module_again(NodeId parent, std::string_view name, bool in_engine);
  Phase op_phase(NodeId parent, std::string_view name, bool recorded) const;
  Phase range_phase(NodeId parent, std::string_view name);

  std::vector<Node> nodes_;
  std::unordered_map<std::string, NodeId> ids_;
  std::unordered_set<std::string> seen_in_forward_;
  std::unordered_set<NodeId> modules_seen_;
  std::unordered_map<std::string, NodeId> first_call_;  ///< of a module, by its name
  std::unordered_map<std::string, std::unordered_set<std::string>> siblings_;
  Steps steps_;
  bool phases_at_top_ = false;
};

/// "ProfilerStep#12", "step 12", "iteration_3": a range of one step of training.
[[nodiscard]] bool names_step(std::string_view range);
/// The node of the backward graph that PyTorch's engine runs.
[[nodiscard]] bool names_engine(std::string_view op);
/// How torch.profiler (with_stack) names a module's call.
inline constexpr std::string_view module_prefix = "nn.Module: ";

}  // namespace ac_advisor::trace
