// What torch/_inductor/scheduler.py (v2.11) fuses, and in which order: pairs that share a buffer,
// by the bytes that they share. Names are its own.
#include "fusion.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace ac_advisor::passes::compile {
namespace {

/// config.py: max_fusion_buffer_group_pairwise_attempts, score_fusion_memory_threshold;
/// are_long_distant_nodes; can_fusion_increase_peak_memory.
constexpr std::size_t pairwise_attempts = 64;
constexpr std::int64_t least_score = 10, farthest = 64, overhead_a_byte_saved = 32;
constexpr int most_rounds = 10;

/// MixOrderReduction.can_fuse: sums over rows and over columns of one tensor.
bool mixes_orders(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t fits_cache = 5 * (std::int64_t{1} << 20), widest = 1024 * 16;
  return rows * columns >= fits_cache && rows >= 2 * columns && rows >= 4096 && columns <= widest;
}

/// Nodes that have become one: of mixed reductions each order is a part.
struct Fused {
  std::vector<std::int32_t> nodes;
  std::vector<NodeId> writes;
  std::set<NodeId> reads, elsewhere;
  std::map<NodeId, double> walks;
  std::int64_t space = 0, rows = 0, columns = 0;  ///< rows, columns: of its reductions
  bool library = false, copies = false, row_sums = false, column_sums = false;

  [[nodiscard]] std::int32_t min_order() const { return nodes.front(); }
  [[nodiscard]] std::int32_t max_order() const { return nodes.back(); }
  [[nodiscard]] bool reduces() const { return row_sums || column_sums; }
  [[nodiscard]] bool mixed() const { return row_sums && column_sums; }
  [[nodiscard]] bool makes(NodeId buffer) const {
    return std::find(writes.begin(), writes.end(), buffer) != writes.end();
  }
};

class Fusion {
 public:
  Fusion(const std::vector<SchedulerNode>& nodes, const std::vector<BufferUse>& buffers)
      : buffers_(buffers), maker_(buffers.size(), -1) {
    for (const SchedulerNode& node : nodes) {
      Fused one;
      one.nodes = {static_cast<std::int32_t>(all_.size())};
      one.writes = node.writes;
      one.reads = node.reads;
      one.elsewhere = node.elsewhere;
      one.walks = node.walks;
      one.space = node.space;
      one.library = node.sort == Sort::library;
      one.copies = node.copies;
      one.row_sums = node.sort == Sort::row_sum;
      one.column_sums = node.sort == Sort::column_sum;
      if (one.row_sums) one.rows = node.rows;
      if (one.column_sums) one.columns = node.rows;
      for (NodeId buffer : one.writes) maker_[at(buffer)] = one.nodes.front();
      all_.push_back(std::move(one));
    }
  }

  std::vector<std::vector<std::int32_t>> run() {
    for (int round = 0; round < most_rounds; ++round)
      if (!fuse_nodes_once()) break;
    std::vector<std::vector<std::int32_t>> groups;
    for (Fused& fused : all_)
      if (!fused.nodes.empty()) groups.push_back(std::move(fused.nodes));
    std::sort(groups.begin(), groups.end());
    return groups;
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] const Fused& fused(std::int32_t i) const { return all_[at(i)]; }

  [[nodiscard]] bool depends(std::int32_t node, std::int32_t on) const {
    seen_.assign(all_.size(), false);
    std::vector<std::int32_t> rest{node};
    while (!rest.empty()) {
      const std::int32_t current = rest.back();
      rest.pop_back();
      for (NodeId read : fused(current).reads) {
        const std::int32_t maker = maker_[at(read)];
        if (maker == on) return true;
        if (maker < 0 || seen_[at(maker)]) continue;
        seen_[at(maker)] = true;
        rest.push_back(maker);
      }
    }
    return false;
  }
  /// will_fusion_create_cycle: something between them needs the one and makes what the other needs.
  [[nodiscard]] bool creates_cycle(std::int32_t a, std::int32_t b) const {
    const auto through = [&](std::int32_t node, std::int32_t on) {
      return std::any_of(fused(node).reads.begin(), fused(node).reads.end(), [&](NodeId read) {
        const std::int32_t maker = maker_[at(read)];
        return maker >= 0 && maker != on && maker != node && depends(maker, on);
      });
    };
    return through(a, b) || through(b, a);
  }

  /// Of buffers that both use.
  template <typename Count>
  [[nodiscard]] std::int64_t shared(const Fused& a, const Fused& b, const Count& count) const {
    std::int64_t sum = 0;
    const auto add = [&](NodeId buffer) {
      if (!b.reads.contains(buffer) && !b.makes(buffer)) return;
      const auto walks = a.walks.find(buffer);
      const double often = walks == a.walks.end() ? 1 : walks->second;
      sum += static_cast<std::int64_t>(static_cast<double>(count(buffers_[at(buffer)])) * often);
    };
    for (NodeId buffer : a.reads) add(buffer);
    for (NodeId buffer : a.writes) add(buffer);
    return sum;
  }

  [[nodiscard]] bool mix(const Fused& a, const Fused& b) const {
    if (!a.reduces() || !b.reduces() || a.mixed() || b.mixed() || a.row_sums == b.row_sums)
      return false;
    const Fused &rows = a.row_sums ? a : b, &columns = a.row_sums ? b : a;
    if (rows.space != columns.space || rows.rows * columns.columns != rows.space) return false;
    if (!mixes_orders(rows.rows, columns.columns)) return false;
    const bool full = std::any_of(rows.reads.begin(), rows.reads.end(), [&](NodeId buffer) {
      return columns.reads.contains(buffer) && buffers_[at(buffer)].elements == rows.space;
    });
    const auto i = static_cast<std::int32_t>(&a - all_.data()),
               j = static_cast<std::int32_t>(&b - all_.data());
    return full && !depends(i, j) && !depends(j, i);
  }

  [[nodiscard]] bool can_fusion_increase_peak_memory(const Fused& a, const Fused& b,
                                                     std::int64_t score) const {
    const auto single_user_inputs = [&](const Fused& node) {
      std::set<std::pair<std::int64_t, std::int64_t>> keys;  // bytes, elements: buffer_reuse_key
      for (NodeId read : node.reads) {
        const BufferUse& use = buffers_[at(read)];
        if (use.made && use.readers == 1) keys.emplace(use.bytes, use.elements);
      }
      return keys;
    };
    const auto first = single_user_inputs(a), second = single_user_inputs(b);
    std::int64_t overhead = 0;
    for (const auto& key : first)
      if (second.contains(key)) overhead += key.second;
    return overhead > overhead_a_byte_saved * score;
  }

  [[nodiscard]] static std::int64_t distance(const Fused& a, const Fused& b) {
    return std::max(std::abs(a.min_order() - b.max_order()),
                    std::abs(b.min_order() - a.max_order()));
  }

  /// simd.py: can_fuse. Whether the loops of the two are the same.
  [[nodiscard]] static bool loops_meet(const Fused& a, const Fused& b) {
    if (a.reduces() && b.reduces())
      return a.space == b.space && a.row_sums == b.row_sums && a.column_sums == b.column_sums &&
             a.rows == b.rows && a.columns == b.columns;
    if (!a.reduces() && !b.reduces()) return a.space == b.space;
    const Fused &sums = a.reduces() ? a : b, &other = a.reduces() ? b : a;
    return sums.row_sums && (other.space == sums.space || other.space == sums.rows);
  }

  /// FusedMixOrderReductions.can_fuse_with: another reduction only where they share a whole tensor.
  [[nodiscard]] bool mixed_takes(const Fused& a, const Fused& b) const {
    if (!b.reduces()) return loops_meet(a, b);
    if (a.space != b.space || (b.row_sums && a.rows != b.rows) ||
        (b.column_sums && a.columns != b.columns))
      return false;
    return shared(a, b, [](const BufferUse& use) { return use.elements; }) >= a.space;
  }

  /// can_fuse, and score_fusion_memory where it is so.
  [[nodiscard]] std::optional<std::int64_t> score_if_fusable(std::int32_t i, std::int32_t j) const {
    const Fused &a = fused(i), &b = fused(j);
    if (a.library || b.library || (b.mixed() && !a.mixed())) return std::nullopt;
    const bool mixes = mix(a, b);
    if (a.mixed() ? !mixed_takes(a, b) : !mixes && !loops_meet(a, b)) return std::nullopt;
    const std::int64_t score =
        mixes ? a.space : shared(a, b, [](const BufferUse& use) { return use.bytes; });
    if (score == 0 || can_fusion_increase_peak_memory(a, b, score)) return std::nullopt;
    if (mixes) return score;
    if (depends(i, j)) return std::nullopt;  // node1 must go before node2
    // fusable_read_and_write: what the one writes the other reads at the same places; a reduction's
    // reader takes over its loops.
    const bool fuses =
        depends(j, i)
            ? a.reduces() ||
                  std::none_of(a.writes.begin(), a.writes.end(),
                               [&](NodeId buffer) { return b.elsewhere.contains(buffer); })
            : a.copies == b.copies && score >= least_score && distance(a, b) <= farthest;
    return fuses ? std::optional(score) : std::nullopt;
  }

  void join(std::int32_t into, std::int32_t from) {
    Fused &a = all_[at(into)], &b = all_[at(from)];
    for (NodeId buffer : b.writes) maker_[at(buffer)] = into;
    a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
    std::sort(a.nodes.begin(), a.nodes.end());
    a.writes.insert(a.writes.end(), b.writes.begin(), b.writes.end());
    a.reads.insert(b.reads.begin(), b.reads.end());
    a.elsewhere.insert(b.elsewhere.begin(), b.elsewhere.end());
    a.walks.insert(b.walks.begin(), b.walks.end());
    for (NodeId buffer : a.writes) a.reads.erase(buffer);
    a.space = std::max(a.space, b.space);
    a.rows = std::max(a.rows, b.rows);
    a.columns = std::max(a.columns, b.columns);
    a.row_sums = a.row_sums || b.row_sums;
    a.column_sums = a.column_sums || b.column_sums;
    b = {};
    b.library = true;
  }

  bool fuse_nodes_once() {
    struct Pair {
      bool alike;
      std::int64_t score, near;
      std::int32_t a, b;
    };
    std::vector<std::int32_t> order;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (!all_[i].library && !all_[i].nodes.empty()) order.push_back(static_cast<int>(i));
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return fused(a).min_order() < fused(b).min_order();
    });
    std::map<NodeId, std::vector<std::int32_t>> users;
    for (std::int32_t i : order) {
      for (NodeId buffer : fused(i).reads) users[buffer].push_back(i);
      for (NodeId buffer : fused(i).writes) users[buffer].push_back(i);
    }
    std::set<std::pair<std::int32_t, std::int32_t>> seen;
    std::vector<Pair> pairs;
    for (auto& [buffer, group] : users) {
      std::sort(group.begin(), group.end(), [&](std::int32_t a, std::int32_t b) {
        return fused(a).min_order() < fused(b).min_order();
      });
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t k = i + 1; k < group.size() && k <= i + pairwise_attempts; ++k) {
          if (!seen.emplace(group[i], group[k]).second) continue;
          const std::optional<std::int64_t> score = score_if_fusable(group[i], group[k]);
          if (!score) continue;
          const Fused &a = fused(group[i]), &b = fused(group[k]);
          pairs.push_back(
              {a.reduces() == b.reduces(), *score, -distance(a, b), group[i], group[k]});
        }
    }
    std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) {
      return std::tuple(y.alike, y.score, y.near) < std::tuple(x.alike, x.score, x.near);
    });
    std::map<std::int32_t, std::int32_t> into;
    const auto now = [&](std::int32_t i) {
      while (into.contains(i)) i = into[i];
      return i;
    };
    bool changed = false;
    for (const Pair& pair : pairs) {
      const std::int32_t a = now(pair.a), b = now(pair.b);
      if (a == b || !score_if_fusable(a, b) || creates_cycle(a, b)) continue;
      join(a, b);
      into[b] = a;
      changed = true;
    }
    return changed;
  }

  const std::vector<BufferUse>& buffers_;
  std::vector<std::int32_t> maker_;  ///< of a buffer; -1: it is given
  std::vector<Fused> all_;
  mutable std::vector<bool> seen_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> fuse_nodes(const std::vector<SchedulerNode>& nodes,
                                                  const std::vector<BufferUse>& buffers) {
  return Fusion(nodes, buffers).run();
}

}  // namespace ac_advisor::passes::compile
