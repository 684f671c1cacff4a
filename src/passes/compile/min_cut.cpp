// Dinic's algorithm: blocking flows in layered graphs (Soviet Math. Doklady 11, 1970).
#include "min_cut.hpp"

#include <algorithm>
#include <stdexcept>

namespace ac_advisor::passes::compile {

void MinCut::edge(std::int32_t from, std::int32_t to, std::int64_t capacity) {
  const auto add = [this](std::int32_t at, std::int32_t end, std::int64_t left) {
    std::int32_t& last = last_[static_cast<std::size_t>(at)];
    edges_.push_back({end, last, left});
    last = static_cast<std::int32_t>(edges_.size()) - 1;
  };
  add(from, to, std::min(capacity, infinite));
  add(to, from, 0);
}

bool MinCut::layers(std::int32_t source, std::int32_t sink) {
  layer_.assign(last_.size(), -1);
  layer_[static_cast<std::size_t>(source)] = 0;
  std::vector<std::int32_t> queue{source};
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (std::int32_t e = last_[static_cast<std::size_t>(queue[at])]; e >= 0;) {
      const Edge& edge = edges_[static_cast<std::size_t>(e)];
      e = edge.before;
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
  for (std::int32_t& i = next_[node]; i >= 0; i = edges_[static_cast<std::size_t>(i)].before) {
    const auto e = static_cast<std::size_t>(i);
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
    next_ = last_;
    while (const std::int64_t pushed = push(source, sink, infinite))
      if (pushed >= infinite) throw std::logic_error("a value can neither be saved nor recomputed");
  }
  // What still reaches the sink: against the edges that have capacity left.
  std::vector<bool> reaches(last_.size(), false);
  std::vector<std::int32_t> queue{sink};
  reaches[static_cast<std::size_t>(sink)] = true;
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (std::int32_t e = last_[static_cast<std::size_t>(queue[at])]; e >= 0;) {
      const Edge& into = edges_[static_cast<std::size_t>(e ^ 1)];
      const std::int32_t from = edges_[static_cast<std::size_t>(e)].to;
      e = edges_[static_cast<std::size_t>(e)].before;
      if (into.left == 0 || reaches[static_cast<std::size_t>(from)]) continue;
      reaches[static_cast<std::size_t>(from)] = true;
      queue.push_back(from);
    }
  return reaches;
}

}  // namespace ac_advisor::passes::compile
