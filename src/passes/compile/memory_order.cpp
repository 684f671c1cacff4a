// torch/_inductor/memory.py (v2.11), to the letter; names are its own.
#include "memory_order.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace ac_advisor::passes::compile {
namespace {

using Order = std::vector<std::int32_t>;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

class Orders {
 public:
  Orders(const std::vector<LaunchMemory>& launches, const std::vector<BufferMemory>& buffers)
      : launches_(launches),
        buffers_(buffers),
        pred_nodes_(launches.size()),
        succ_nodes_(launches.size()),
        readers_(buffers.size()),
        size_(launches.size(), 0) {
    std::vector<std::int32_t> maker(buffers.size(), -1);
    for (std::size_t n = 0; n < launches.size(); ++n)
      for (std::int32_t b : launches[n].makes) {
        maker[at(b)] = static_cast<std::int32_t>(n);
        size_[n] += buffers[at(b)].bytes;
      }
    for (std::size_t n = 0; n < launches.size(); ++n)
      for (std::int32_t b : launches[n].reads) {
        const auto node = static_cast<std::int32_t>(n);
        readers_[at(b)].push_back(node);
        const std::int32_t from = maker[at(b)];
        if (from < 0 || from == node) continue;
        pred_nodes_[n].push_back(from);
        succ_nodes_[at(from)].push_back(node);
      }
    for (auto* all : {&pred_nodes_, &succ_nodes_})
      for (Order& nodes : *all) {  // each once, in order
        std::sort(nodes.begin(), nodes.end());
        nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
      }
  }

  [[nodiscard]] Order baseline() const {
    Order order(launches_.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  [[nodiscard]] std::vector<std::int64_t> memories_at_nodes(const Order& order) const {
    std::vector<std::size_t> step(order.size());
    for (std::size_t t = 0; t < order.size(); ++t) step[at(order[t])] = t;
    std::vector<std::int64_t> memory(order.size() + 1, 0);
    for (std::size_t b = 0; b < buffers_.size(); ++b)
      if (buffers_[b].given) add(memory, b, 0, step);
    for (std::size_t t = 0; t < order.size(); ++t)
      for (std::int32_t b : launches_[at(order[t])].makes) add(memory, at(b), t, step);
    std::partial_sum(memory.begin(), memory.end(), memory.begin());
    return memory;
  }

  /// Least peak memory first.
  [[nodiscard]] Order topological_sort_lpmf() const {
    std::vector<std::size_t> indegree, outdegree;
    std::set<std::int32_t> nodes_to_schedule;
    for (std::size_t n = 0; n < launches_.size(); ++n) {
      indegree.push_back(pred_nodes_[n].size());
      if (indegree[n] == 0) nodes_to_schedule.insert(static_cast<std::int32_t>(n));
    }
    std::int64_t live_memory = 0, output_memory = 0;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      outdegree.push_back(readers_[b].size() + (buffers_[b].result ? 1 : 0));
      if (buffers_[b].given) live_memory += buffers_[b].bytes;
      if (buffers_[b].result) output_memory += buffers_[b].bytes;
    }
    std::int64_t max_memory = std::max(live_memory, output_memory);
    std::vector<std::int64_t> memory_to_free(launches_.size(), 0);
    for (std::size_t n = 0; n < launches_.size(); ++n) {
      for (std::int32_t b : launches_[n].reads)
        if (outdegree[at(b)] == 1) memory_to_free[n] += buffers_[at(b)].bytes;
      for (std::int32_t b : launches_[n].makes)
        if (outdegree[at(b)] == 0) memory_to_free[n] += buffers_[at(b)].bytes;
    }
    Order schedule;
    while (!nodes_to_schedule.empty()) {
      const std::int64_t gap = max_memory - live_memory;
      const auto key = [&](std::int32_t n) {
        return std::tuple(size_[at(n)] > gap ? size_[at(n)] : 0,
                          size_[at(n)] - memory_to_free[at(n)], n);
      };
      const std::int32_t selected =
          *std::min_element(nodes_to_schedule.begin(), nodes_to_schedule.end(),
                            [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
      nodes_to_schedule.erase(selected);
      schedule.push_back(selected);
      live_memory += size_[at(selected)];
      max_memory = std::max(max_memory, live_memory);
      live_memory -= memory_to_free[at(selected)];
      for (std::int32_t next : succ_nodes_[at(selected)])
        if (--indegree[at(next)] == 0) nodes_to_schedule.insert(next);
      for (std::int32_t b : launches_[at(selected)].reads)
        if (--outdegree[at(b)] == 1)
          for (std::int32_t reader : readers_[at(b)])
            memory_to_free[at(reader)] += buffers_[at(b)].bytes;
    }
    return schedule;
  }

  /// First what needs the launches that ran earliest.
  [[nodiscard]] Order topological_sort_bfs() const {
    using Entry = std::pair<std::vector<std::int32_t>, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> nodes_to_schedule;
    std::vector<std::size_t> indegree;
    std::vector<std::int32_t> executed(launches_.size(), -1);
    const auto push = [&](std::int32_t n) {
      std::vector<std::int32_t> exec_orders;
      for (std::int32_t before : pred_nodes_[at(n)]) exec_orders.push_back(executed[at(before)]);
      std::sort(exec_orders.begin(), exec_orders.end());
      nodes_to_schedule.emplace(std::move(exec_orders), n);
    };
    for (std::size_t n = 0; n < launches_.size(); ++n) {
      indegree.push_back(pred_nodes_[n].size());
      if (indegree[n] == 0) push(static_cast<std::int32_t>(n));
    }
    Order schedule;
    while (!nodes_to_schedule.empty()) {
      const std::int32_t selected = nodes_to_schedule.top().second;
      nodes_to_schedule.pop();
      executed[at(selected)] = static_cast<std::int32_t>(schedule.size());
      schedule.push_back(selected);
      for (std::int32_t next : succ_nodes_[at(selected)])
        if (--indegree[at(next)] == 0) push(next);
    }
    return schedule;
  }

  /// First what reads and makes least.
  [[nodiscard]] Order topological_sort_dfs() const {
    std::vector<std::int64_t> size_with_reads = size_;
    for (std::size_t n = 0; n < launches_.size(); ++n)
      for (std::int32_t b : launches_[n].reads) size_with_reads[n] += buffers_[at(b)].bytes;
    const auto sorted = [&](Order nodes) {
      std::sort(nodes.begin(), nodes.end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair(size_with_reads[at(a)], a) < std::pair(size_with_reads[at(b)], b);
      });
      return nodes;
    };
    std::vector<bool> seen(launches_.size(), false);
    Order result;
    struct Visit {
      std::int32_t node;
      Order rest;  ///< what it needs, the next one last
    };
    std::vector<Visit> visits;
    const auto enter = [&](std::int32_t n) {
      if (seen[at(n)]) return;
      seen[at(n)] = true;
      Order needs = sorted(pred_nodes_[at(n)]);
      std::reverse(needs.begin(), needs.end());
      visits.push_back({n, std::move(needs)});
    };
    for (std::int32_t n : sorted(baseline())) {
      enter(n);
      while (!visits.empty()) {
        Visit& visit = visits.back();
        if (visit.rest.empty()) {
          result.push_back(visit.node);
          visits.pop_back();
          continue;
        }
        const std::int32_t next = visit.rest.back();
        visit.rest.pop_back();
        enter(next);
      }
    }
    return result;
  }

 private:
  /// A result is freed before the first launch: compute_memory_timeline has it end at step -1,
  /// which is the same for every order.
  void add(std::vector<std::int64_t>& memory, std::size_t b, std::size_t start,
           const std::vector<std::size_t>& step) const {
    memory[start] += buffers_[b].bytes;
    std::size_t after = buffers_[b].result ? 0 : start + 1;
    if (!buffers_[b].result)
      for (std::int32_t reader : readers_[b]) after = std::max(after, step[at(reader)] + 1);
    memory[after] -= buffers_[b].bytes;
  }

  const std::vector<LaunchMemory>& launches_;
  const std::vector<BufferMemory>& buffers_;
  std::vector<Order> pred_nodes_, succ_nodes_;
  std::vector<Order> readers_;  ///< of a buffer
  std::vector<std::int64_t> size_;
};

}  // namespace

OrderedLaunches order_for_peak_memory(const std::vector<LaunchMemory>& launches,
                                      const std::vector<BufferMemory>& buffers) {
  const Orders orders(launches, buffers);
  const auto of = [&](Order order) {
    std::vector<std::int64_t> memory = orders.memories_at_nodes(order);
    return OrderedLaunches{std::move(order), std::move(memory)};
  };
  const auto peak = [](const OrderedLaunches& ordered) {
    return *std::max_element(ordered.memory.begin(), ordered.memory.end());
  };
  OrderedLaunches best = of(orders.baseline());
  for (Order& order :
       std::vector<Order>{orders.topological_sort_lpmf(), orders.topological_sort_bfs(),
                          orders.topological_sort_dfs()}) {
    OrderedLaunches other = of(std::move(order));
    if (peak(other) < peak(best)) best = std::move(other);
  }
  return best;
}

ReusePool::ReusePool(std::vector<std::int64_t> estimate) : estimate_(std::move(estimate)) {
  for (const std::int64_t now : estimate_) peak_ = std::max(peak_, now);
}

void ReusePool::free(std::int32_t tensor, DType dtype, std::int64_t bytes, std::size_t step) {
  freed_[{dtype, bytes}].push_back({tensor, step});
}

std::int32_t ReusePool::allocate(DType dtype, std::int64_t bytes, std::size_t step) {
  const auto found = freed_.find({dtype, bytes});
  if (found == freed_.end() || found->second.empty()) return -1;
  const Freed last = found->second.back();
  const auto from = estimate_.begin() + static_cast<std::ptrdiff_t>(last.step) + 1,
             to = estimate_.begin() + static_cast<std::ptrdiff_t>(step);
  if (from < to) {
    if (*std::max_element(from, to) + bytes > peak_) return -1;
    std::for_each(from, to, [&](std::int64_t& now) { now += bytes; });
  }
  found->second.pop_back();
  return last.tensor;
}

}  // namespace ac_advisor::passes::compile
