// Dinic's algorithm: blocking flows in layered graphs (Soviet Math. Doklady 11, 1970).
#include "min_cut.hpp"

#include <algorithm>
#include <stdexcept>

namespace ac_advisor::passes::compile {

void MinCut::edge(std::int32_t from, std::int32_t to, std::int64_t capacity) {
  out_[static_cast<std::size_t>(from)].push_back(static_cast<std::int32_t>(edges_.size()));
  edges_.push_back({to, std::min(capacity, infinite)});
  out_[static_cast<std::size_t>(to)].push_back(static_cast<std::int32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::layers(std::int32_t source, std::int32_t sink) {
  layer_.assign(out_.size(), -1);
  layer_[static_cast<std::size_t>(source)] = 0;
  std::vector<std::int32_t> queue{source};
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (std::int32_t e : out_[static_cast<std::size_t>(queue[at])]) {
      const Edge& edge = edges_[static_cast<std::size_t>(e)];
      std::int32_t& layer = layer_[static_cast<std::size_t>(edge.to)];
      if (edge.left == 0 || layer >= 0) continue;
      layer = layer_[static_cast<std::size_t>(queue[at])] + 1;
      queue.push_back(edge.to);
    }
  return layer_[static_cast<std::size_t>(sink)] >= 0;
}

std::int64_t MinCut::push(std::int32_t from, std::int32_t sink, std::int64_t most) {
  if (from == sink) return most;
  const auto node = static_cast<std::size_t>(from);
  for (std::size_t& i = next_[node]; i < out_[node].size(); ++i) {
    const auto e = static_cast<std::size_t>(out_[node][i]);
    const std::int32_t to = edges_[e].to;
    if (edges_[e].left == 0 || layer_[static_cast<std::size_t>(to)] != layer_[node] + 1) continue;
    const std::int64_t pushed = push(to, sink, std::min(most, edges_[e].left));
    if (pushed == 0) continue;
    if (edges_[e].left < infinite) edges_[e].left -= pushed;
    if (edges_[e ^ 1].left < infinite) edges_[e ^ 1].left += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> MinCut::sink_side(std::int32_t source, std::int32_t sink) {
  while (layers(source, sink)) {
    next_.assign(out_.size(), 0);
    while (const std::int64_t pushed = push(source, sink, infinite))
      if (pushed >= infinite) throw std::logic_error("a value can neither be saved nor recomputed");
  }
  // What still reaches the sink: against the edges that have capacity left.
  std::vector<bool> reaches(out_.size(), false);
  std::vector<std::int32_t> queue{sink};
  reaches[static_cast<std::size_t>(sink)] = true;
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (std::int32_t e : out_[static_cast<std::size_t>(queue[at])]) {
      const std::int32_t from = edges_[static_cast<std::size_t>(e)].to;
      const Edge& into = edges_[static_cast<std::size_t>(e ^ 1)];
      if (into.left == 0 || reaches[static_cast<std::size_t>(from)]) continue;
      reaches[static_cast<std::size_t>(from)] = true;
      queue.push_back(from);
    }
  return reaches;
}

}  // namespace ac_advisor::passes::compile
