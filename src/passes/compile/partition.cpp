// PyTorch's min-cut partitioner, to the letter: torch/_functorch/partitioners.py (v2.11). Names are
// its own.
#include "partition.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <tuple>

#include "min_cut.hpp"

namespace ac_advisor::passes::compile {
namespace {

/// MinCutOptions, as torch._functorch.config has them.
struct Options {
  bool used_far_apart = true;
  bool long_fusible_chains = true;
  bool materialized_backward = true;
  bool not_in_allowlist = true;
};

constexpr std::int32_t far_from_backward = 1000000000;

/// classify_nodes, and dist_from_bw of min_cut_rematerialization_partition.
struct NodeInfo {
  std::vector<bool> required_fw, tangents_closure, required_bw;
  std::vector<std::int32_t> fw_order, dist_from_bw;

  explicit NodeInfo(const JointGraph& graph);
};

NodeInfo::NodeInfo(const JointGraph& graph)
    : required_fw(graph.nodes.size(), false),
      tangents_closure(graph.nodes.size(), false),
      fw_order(graph.nodes.size(), 0),
      dist_from_bw(graph.nodes.size(), 0) {
  for (NodeId n = 0; n < graph.size(); ++n) {
    const auto i = static_cast<std::size_t>(n);
    if (graph.node(n).target == Target::tangent) tangents_closure[i] = true;
    for (NodeId in : graph.node(n).inputs)
      if (tangents_closure[static_cast<std::size_t>(in)]) tangents_closure[i] = true;
  }
  required_bw = tangents_closure;
  for (NodeId n : graph.backward_outputs)
    if (n >= 0) required_bw[static_cast<std::size_t>(n)] = true;
  for (NodeId n : graph.forward_outputs) required_fw[static_cast<std::size_t>(n)] = true;
  for (NodeId n = graph.size(); n-- > 0;) {
    // Waits have side effects (torch.fx.node.has_side_effect): none that needs no gradient is dead
    // code of the forward, whatever reads it.
    const bool waits =
        graph.node(n).target == Target::wait && !tangents_closure[static_cast<std::size_t>(n)];
    if (graph.node(n).target == Target::placeholder || waits)
      required_fw[static_cast<std::size_t>(n)] = true;
    if (!required_fw[static_cast<std::size_t>(n)]) continue;
    for (NodeId in : graph.node(n).inputs) required_fw[static_cast<std::size_t>(in)] = true;
  }
  std::int32_t order = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (required_fw[i]) fw_order[i] = order++;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!required_fw[i]) continue;
    dist_from_bw[i] = far_from_backward;
    for (NodeId user : graph.nodes[i].users)
      dist_from_bw[i] = std::min(dist_from_bw[i], dist_from_bw[static_cast<std::size_t>(user)] + 1);
  }
}

/// solve_min_cut
class Partitioner {
 public:
  Partitioner(const JointGraph& graph, const NodeInfo& info, const Options& options,
              const std::set<NodeId>& dont_ban = {})
      : g_(graph),
        info_(info),
        options_(options),
        dont_ban_(dont_ban),
        banned_(graph.nodes.size(), false),
        cut_(2 * graph.size() + 2) {}

  std::vector<NodeId> solve() {
    for (NodeId n = 0; n < g_.size(); ++n) add(n);
    if (options_.used_far_apart) ban_used_far_apart();
    if (options_.long_fusible_chains) ban_long_fusible_chains();
    const std::vector<bool> sink_side = cut_.sink_side(source(), sink());
    std::vector<NodeId> saved;
    for (NodeId n = 0; n < g_.size(); ++n)
      if (!sink_side[static_cast<std::size_t>(in(n))] &&
          sink_side[static_cast<std::size_t>(out(n))])
        saved.push_back(n);
    return saved;
  }
  /// In the order in which they were banned.
  [[nodiscard]] const std::vector<NodeId>& banned() const { return banned_nodes_; }

 private:
  static std::int32_t in(NodeId n) { return 2 * n; }
  static std::int32_t out(NodeId n) { return 2 * n + 1; }
  [[nodiscard]] std::int32_t source() const { return 2 * g_.size(); }
  [[nodiscard]] std::int32_t sink() const { return 2 * g_.size() + 1; }
  [[nodiscard]] bool is_required_fw(NodeId n) const {
    return info_.required_fw[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] std::int32_t fw_order(NodeId n) const {
    return info_.fw_order[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] const TargetRow& row_of(NodeId n) const { return row(g_.node(n).target); }

  [[nodiscard]] bool is_fusible(NodeId a, NodeId b) const {
    if (g_.node(b).target == Target::cat) return true;
    return row_of(a).recomputable && row_of(b).recomputable;
  }
  [[nodiscard]] bool is_materialized(NodeId n) const {
    if (g_.node(n).target == Target::placeholder) return true;
    const auto& users = g_.node(n).users;
    return !std::all_of(users.begin(), users.end(), [&](NodeId u) { return is_fusible(n, u); });
  }

  /// A user that backward alone has, and into which it is not fused, through views.
  [[nodiscard]] bool is_materialized_backwards(NodeId n) const {
    if (row_of(n).view) return false;
    std::vector<NodeId> nodes{n};
    while (!nodes.empty()) {
      const NodeId cur = nodes.back();
      nodes.pop_back();
      for (NodeId user : g_.node(cur).users) {
        if (!is_required_fw(user) && !is_fusible(cur, user)) return true;
        if (row_of(user).view) nodes.push_back(user);
      }
    }
    return false;
  }

  [[nodiscard]] bool should_ban_recomputation(NodeId n) const {
    const Node& node = g_.node(n);
    if (node.target == Target::placeholder || node.target == Target::tangent ||
        node.target == Target::getitem)
      return false;
    if (node.kept) return true;
    const TargetRow& row = row_of(n);
    if (options_.not_in_allowlist ? !row.recomputable : row.compute_intensive) return true;
    if (options_.materialized_backward && is_materialized_backwards(n)) return true;
    // config.max_dist_from_bw bans nothing: it is 1000, and asked of what is nearer than that.
    return 4 * g_.bytes_of(n) < bytes_read(node);
  }

  /// ban_if_reduction. What is joined, and places to index at, are lists, which it does not count.
  [[nodiscard]] std::int64_t bytes_read(const Node& node) const {
    if (node.target == Target::cat) return 0;
    std::int64_t read = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.target != Target::index || i == 0) read += g_.bytes_of(node.inputs[i]);
    return read;
  }

  bool ban_recomputation_if_allowed(NodeId n) {
    if (row_of(n).view || dont_ban_.contains(n) || g_.node(n).recomputed) return false;
    if (!banned_[static_cast<std::size_t>(n)]) banned_nodes_.push_back(n);
    banned_[static_cast<std::size_t>(n)] = true;
    cut_.edge(source(), in(n), MinCut::infinite);
    return true;
  }

  [[nodiscard]] std::int64_t node_weight(NodeId n) const {
    const Node& node = g_.node(n);
    if (!node.has_tensor) return MinCut::infinite;
    if (node.parameter) return 0;  // treat_parameters_as_free_to_save
    const std::int32_t distance =
        std::max(std::min(info_.dist_from_bw[static_cast<std::size_t>(n)], 100), 1);
    const auto weight =
        static_cast<std::int64_t>(static_cast<double>(node.bytes()) * std::pow(1.1, distance));
    return is_materialized(n) ? weight : 2 * weight;
  }

  void add(NodeId n) {
    const auto i = static_cast<std::size_t>(n);
    if (info_.tangents_closure[i]) {
      cut_.edge(in(n), sink(), MinCut::infinite);
      return;
    }
    if (info_.required_bw[i]) cut_.edge(out(n), sink(), MinCut::infinite);
    if (g_.node(n).recomputed) {  // must_recompute
      cut_.edge(in(n), sink(), MinCut::infinite);
      return;
    }
    if (g_.node(n).target == Target::placeholder) ban_recomputation_if_allowed(n);
    if (is_required_fw(n) && should_ban_recomputation(n)) ban_recomputation_if_allowed(n);
    cut_.edge(in(n), out(n), node_weight(n));
    for (NodeId user : g_.node(n).users) cut_.edge(out(n), in(user), MinCut::infinite);
  }

  /// The position of the first node in the chains from `starts` on that is not fused into them.
  [[nodiscard]] std::int32_t find_first_unfusible(const std::vector<NodeId>& starts,
                                                  std::int32_t max_range) const {
    using Entry = std::tuple<std::int32_t, NodeId, bool>;
    std::set<Entry> sorted;
    for (NodeId n : starts) sorted.emplace(fw_order(n), n, true);
    while (!sorted.empty()) {
      const auto [order, n, fusible] = *sorted.begin();
      sorted.erase(sorted.begin());
      if (!fusible) return order;
      for (NodeId user : g_.node(n).users)
        if (is_required_fw(user) && fw_order(user) <= max_range)
          sorted.emplace(fw_order(user), user, is_fusible(n, user));
    }
    return max_range;
  }

  void ban_used_far_apart() {
    std::vector<NodeId> fw_users;
    for (NodeId used = 0; used < g_.size(); ++used) {
      if (!is_required_fw(used)) continue;
      fw_users.clear();
      std::int32_t last = -1;
      for (NodeId user : g_.node(used).users)
        if (is_required_fw(user)) {
          fw_users.push_back(user);
          last = std::max(last, fw_order(user));
        }
      if (fw_users.size() < 2) continue;  // none lies beyond the first
      const std::int32_t first_unfusible = find_first_unfusible(fw_users, last);
      for (NodeId user : fw_users)
        if (fw_order(user) > first_unfusible && is_fusible(used, user) &&
            !banned_[static_cast<std::size_t>(user)])
          ban_recomputation_if_allowed(user);
    }
  }

  void ban_long_fusible_chains() {
    using Entry = std::pair<std::int32_t, NodeId>;
    std::vector<bool> visited(g_.nodes.size(), false);
    for (NodeId start = 0; start < g_.size(); ++start) {
      if (!is_required_fw(start) || visited[static_cast<std::size_t>(start)]) continue;
      std::priority_queue<Entry, std::vector<Entry>, std::greater<>> fusible;
      fusible.emplace(fw_order(start), start);
      while (!fusible.empty()) {
        const NodeId cur = fusible.top().second;
        fusible.pop();
        if (visited[static_cast<std::size_t>(cur)]) continue;
        visited[static_cast<std::size_t>(cur)] = true;
        if (fw_order(cur) > fw_order(start) + 100 && fusible.empty()) {
          ban_recomputation_if_allowed(cur);
          break;
        }
        for (NodeId user : g_.node(cur).users)
          if (is_required_fw(user) && is_fusible(cur, user) &&
              !banned_[static_cast<std::size_t>(user)])
            fusible.emplace(fw_order(user), user);
      }
    }
  }

  const JointGraph& g_;
  const NodeInfo& info_;
  Options options_;
  const std::set<NodeId>& dont_ban_;
  std::vector<bool> banned_;
  std::vector<NodeId> banned_nodes_;
  MinCut cut_;
};

const std::set<NodeId> nothing;

std::int64_t size_of_all(const JointGraph& graph, const std::vector<NodeId>& nodes) {
  std::int64_t sum = 0;
  for (NodeId n : nodes) sum += graph.node(n).bytes();
  return sum;
}

/// estimate_runtime in its default mode: FlopCounterMode's figures (torch/utils/flop_counter.py).
double estimate_runtime(const JointGraph& graph, const Node& node) {
  const auto shape = [&](std::size_t i) { return graph.node(node.inputs[i]).shape; };
  switch (node.target) {
    case Target::mm:
    case Target::scaled_mm:
      return 2.0 * static_cast<double>(node.shape.numel() * shape(0).back());
    case Target::addmm:
      return 2.0 * static_cast<double>(node.shape.numel() * shape(1).back());
    case Target::sdpa_cudnn:
    case Target::sdpa_flash:
    case Target::sdpa_efficient:
      return 2.0 * static_cast<double>(shape(0).numel() * shape(1)[2] +
                                       shape(0).numel() / shape(0).back() * shape(1)[2] *
                                           shape(2).back());
    default:
      return 1;
  }
}

/// get_saved_values_knapsack: what may be recomputed of what is banned, in order of falling size.
std::vector<NodeId> knapsack_values(const JointGraph& graph, const NodeInfo& info,
                                    const Options& options, const std::vector<NodeId>& banned,
                                    double span, double budget) {
  std::vector<NodeId> candidates, must_save;
  for (NodeId n : banned) {
    const Node& node = graph.node(n);
    if (info.dist_from_bw[static_cast<std::size_t>(n)] >= far_from_backward ||
        node.target == Target::placeholder)
      continue;
    (node.kept ? must_save : candidates).push_back(n);
  }
  if (candidates.empty()) {
    std::vector<NodeId> saved = graph.all(Target::placeholder);
    saved.insert(saved.end(), must_save.begin(), must_save.end());
    return saved;
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](NodeId a, NodeId b) { return graph.bytes_of(a) > graph.bytes_of(b); });
  std::vector<double> memory, runtime;
  for (NodeId n : candidates) {
    memory.push_back(static_cast<double>(graph.bytes_of(n)) / 1e9 / span);
    runtime.push_back(std::max(estimate_runtime(graph, graph.node(n)), 1.0));
  }
  std::set<NodeId> dont_ban;
  for (std::size_t i : not_worth_saving(memory, runtime, std::max(budget, 0.0)))
    dont_ban.insert(candidates[i]);
  return Partitioner(graph, info, options, dont_ban).solve();
}

}  // namespace

/// choose_saved_values_set
std::vector<NodeId> saved_values(const JointGraph& graph, double budget) {
  const NodeInfo info(graph);
  const std::vector<NodeId> inputs = graph.all(Target::placeholder);
  if (budget == 0) return inputs;
  Options options;
  std::vector<NodeId> runtime_optimized = Partitioner(graph, info, options, nothing).solve();
  if (budget == 1) return runtime_optimized;
  const auto act_size = [&](const std::vector<NodeId>& nodes) {
    return static_cast<double>(size_of_all(graph, nodes)) / 1e9;
  };
  const double min_act_size = act_size(inputs), max_act_size = act_size(runtime_optimized);
  if (max_act_size <= min_act_size) return runtime_optimized;
  const double span = max_act_size - min_act_size;
  const auto within = [&](const std::vector<NodeId>& nodes) {
    return (act_size(nodes) - min_act_size) / span < budget;
  };
  options.used_far_apart = options.long_fusible_chains = options.materialized_backward = false;
  std::vector<NodeId> more_aggressive = Partitioner(graph, info, options, nothing).solve();
  if (within(more_aggressive)) return more_aggressive;
  options.not_in_allowlist = false;
  Partitioner aggressive(graph, info, options, nothing);
  std::vector<NodeId> recomputing = aggressive.solve();
  if (within(recomputing)) return recomputing;
  return knapsack_values(graph, info, options, aggressive.banned(), span, budget);
}

std::vector<std::size_t> not_worth_saving(const std::vector<double>& memory,
                                          const std::vector<double>& runtime, double most_memory) {
  constexpr double scale = 10000;
  const auto quantized = [&](double m) {  // Python's round: halves to even
    return static_cast<std::size_t>(std::nearbyint(m * scale));
  };
  const std::size_t n = memory.size(), most = quantized(most_memory);
  std::vector<float> best(most + 1, 0.0F);              // of the items so far, by memory
  std::vector<std::uint8_t> better(n * (most + 1), 0);  // whether the item raised it
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t m = quantized(memory[i]);
    const auto gain = static_cast<float>(runtime[i]);
    for (std::size_t j = most + 1; j-- > m;) {  // what is read has not been written yet
      const float with = best[j - m] + gain;
      if (with <= best[j]) continue;
      better[i * (most + 1) + j] = 1;
      best[j] = with;
    }
  }
  std::vector<std::size_t> left_out;
  std::size_t j = most;
  for (std::size_t i = n; i-- > 0;) {
    if (better[i * (most + 1) + j] != 0)
      j -= quantized(memory[i]);
    else
      left_out.push_back(i);
  }
  return left_out;
}

}  // namespace ac_advisor::passes::compile
