#include "collective_time.hpp"

#include <algorithm>

namespace ac_advisor::simulate {
namespace {

using ir::OpKind;

/// A step of a ring with the Simple protocol: over NVLink, over the network (NVIDIA/nccl,
/// src/graph/tuning.cc, hwLat, 2022).
constexpr double link_step_seconds = 3.4e-6, network_step_seconds = 14e-6;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The ranks of one collective, and how many of them share a node.
struct Group {
  std::int64_t ranks = 1, in_node = 1;
  [[nodiscard]] std::int64_t nodes() const { return ceil_div(ranks, in_node); }
};

bool is_all_to_all(OpKind kind) {
  return kind == OpKind::all_to_all || kind == OpKind::cp_all_to_all;
}

bool is_all_reduce(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::tp_all_reduce;
}

Group group_of(const ir::Op& op, const Device& d, const Run& run) {
  const std::int64_t shards = run.shards > 0 ? run.shards : run.world / run.tp;
  const std::int64_t node = d.ranks_of_node(run.node_size);
  // Stages are farthest apart.
  if (const auto* reduce = std::get_if<ir::TpReduce>(&op.attributes);
      reduce && reduce->over != ir::ReducedOver::layer)
    return {reduce->stages, node < run.world ? 1 : reduce->stages};
  // Ranks that share layers are neighbours, those that share data are tp ranks apart.
  if (is_tensor_parallel(op.kind)) return {run.tp, std::min(run.tp, node)};
  // Those that share a sequence are tp ranks apart.
  if (is_context_parallel(op.kind))
    return {run.cp, std::clamp<std::int64_t>(node / run.tp, 1, run.cp)};
  if (is_expert_parallel(op.kind)) return {run.expert_ranks, std::min(run.expert_ranks, node)};
  const bool replicated = op.kind == OpKind::all_reduce && shards * run.tp != run.world;
  // Ranks that have the same experts are as many ranks apart as share a layer's.
  const auto* experts = std::get_if<ir::ExpertShards>(&op.attributes);
  if (experts != nullptr && experts->ranks > 0 && !replicated)
    return {experts->ranks, std::clamp<std::int64_t>(node / run.expert_ranks, 1, experts->ranks)};
  if (!replicated) return {shards, std::clamp<std::int64_t>(node / run.tp, 1, shards)};
  // Replicas of a shard are `shards` ranks of a layer apart.
  const std::int64_t apart = shards * run.tp, replicas = run.world / apart;
  return {replicas, std::clamp<std::int64_t>(node / apart, 1, replicas)};
}

/// The device's latency is of a whole node's ring; each further rank is a step more.
double latency_of(const Group& group, const Device& d) {
  const double nodes = static_cast<double>(group.nodes()),
               inside = static_cast<double>(group.ranks) - nodes,
               known = static_cast<double>(d.node_size) - 1;
  return d.collective_latency + link_step_seconds * std::max(0.0, inside - known) +
         network_step_seconds * (nodes - 1);
}

/// What goes to other nodes leaves by the rank's own adapter, each byte for itself; the rest goes
/// over the links meanwhile.
double exchange_seconds(double bytes, const Group& group, const Device& d, const Run& run) {
  const double ranks = static_cast<double>(group.ranks), near = static_cast<double>(group.in_node);
  const double network = run.network > 0 ? run.network : d.network_bandwidth;
  const double link = d.link_bandwidth * d.collective_bandwidth;
  const double inside = link > 0 ? bytes * (near - 1) / ranks / link : 0;
  const double across =
      network > 0 ? bytes * (ranks - near) / ranks / (network * d.network_gather) : 0;
  return latency_of(group, d) + std::max(inside, across);
}

}  // namespace

bool is_tensor_parallel(OpKind kind) {
  return kind == OpKind::tp_all_gather || kind == OpKind::tp_reduce_scatter ||
         kind == OpKind::tp_all_reduce;
}

bool is_context_parallel(OpKind kind) {
  return kind == OpKind::cp_all_gather || kind == OpKind::cp_all_to_all ||
         kind == OpKind::cp_reduce_scatter;
}

bool makes_new_tensors(OpKind kind) {
  return is_tensor_parallel(kind) || is_expert_parallel(kind) || is_context_parallel(kind);
}

bool is_expert_parallel(OpKind kind) {
  return kind == OpKind::ep_all_gather || kind == OpKind::ep_reduce_scatter ||
         kind == OpKind::all_to_all;
}

double send_seconds(double bytes, bool leaves_node, const Device& d, const Run& run) {
  const double network = run.network > 0 ? run.network : d.network_bandwidth;
  const double link = d.link_bandwidth * d.collective_bandwidth;
  if (!leaves_node || network <= 0) return link > 0 ? link_step_seconds + bytes / link : 0;
  return network_step_seconds + bytes / (network * d.network_gather);
}

double collective_seconds(const ir::Program& p, const ir::Op& op, const Device& d, const Run& run) {
  double bytes = 0;
  for (ir::ValueId v : p.inputs(op)) bytes = std::max(bytes, static_cast<double>(p.bytes(v)));
  if (op.kind == OpKind::ring_exchange)
    return send_seconds(bytes, run.tp * run.cp > d.ranks_of_node(run.node_size), d, run);
  const Group group = group_of(op, d, run);
  if (makes_new_tensors(op.kind))  // of an all-gather, what it makes
    for (ir::ValueId v : p.outputs(op)) bytes = std::max(bytes, static_cast<double>(p.bytes(v)));
  if (is_all_to_all(op.kind)) return exchange_seconds(bytes, group, d, run);
  const bool reduce = is_all_reduce(op.kind);
  const double passes = reduce ? 2.0 : 1.0, ranks = static_cast<double>(group.ranks),
               nodes = static_cast<double>(group.nodes());
  double bus = d.link_bandwidth * (reduce && d.all_reduce_bandwidth > 0 ? d.all_reduce_bandwidth
                                                                        : d.collective_bandwidth);
  const double network = run.network > 0 ? run.network : d.network_bandwidth;
  if (nodes > 1 && network > 0)
    bus = std::min(bus, network * static_cast<double>(group.in_node) *
                            (reduce ? d.network_reduce : d.network_gather));
  return passes * (latency_of(group, d) + bytes * (ranks - 1) / ranks / bus);
}

}  // namespace ac_advisor::simulate
