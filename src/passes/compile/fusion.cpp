// What torch/_inductor/scheduler.py (v2.11) fuses, and in which order: pairs that share a buffer,
// by the bytes that they share. Names are its own.
#include "fusion.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

#include "reach.hpp"

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
  NodeSet reads, elsewhere, indirect;
  std::map<NodeId, double> walks;
  /// Bytes and elements (buffer_reuse_key) of what it alone reads, each once.
  std::vector<std::pair<std::int64_t, std::int64_t>> single_user_inputs;
  std::int64_t space = 0, rows = 0, columns = 0;  ///< rows, columns: of its reductions
  bool library = false, copies = false, maxima = false, row_sums = false, column_sums = false;
  bool in_one = false;  ///< its columns' sums are not split

  [[nodiscard]] std::int32_t min_order() const { return nodes.front(); }
  [[nodiscard]] std::int32_t max_order() const { return nodes.back(); }
  [[nodiscard]] bool reduces() const { return row_sums || column_sums; }
  [[nodiscard]] bool mixed() const { return row_sums && column_sums; }
  [[nodiscard]] bool makes(NodeId buffer) const {
    return std::find(writes.begin(), writes.end(), buffer) != writes.end();
  }
};

/// Nodes that read or write each buffer, in the order in which they are given.
class Users {
 public:
  Users(std::size_t buffers, const std::vector<std::int32_t>& order, const std::vector<Fused>& all)
      : first_(buffers + 1, 0) {
    const auto each = [&](const auto& use) {
      for (std::int32_t i : order) {
        const Fused& fused = all[static_cast<std::size_t>(i)];
        for (NodeId buffer : fused.reads) use(static_cast<std::size_t>(buffer), i);
        for (NodeId buffer : fused.writes) use(static_cast<std::size_t>(buffer), i);
      }
    };
    each([this](std::size_t buffer, std::int32_t) { ++first_[buffer + 1]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    users_.resize(first_.back());
    std::vector<std::size_t> next = first_;
    each([&](std::size_t buffer, std::int32_t i) { users_[next[buffer]++] = i; });
  }
  [[nodiscard]] std::span<const std::int32_t> of(std::size_t buffer) const {
    return {users_.data() + first_[buffer], first_[buffer + 1] - first_[buffer]};
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::int32_t> users_;
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
      one.indirect = node.indirect;
      one.walks = node.walks;
      one.space = node.space;
      one.library = node.sort == Sort::library;
      one.copies = node.copies;
      one.maxima = node.maxima;
      one.in_one = node.in_one;
      one.row_sums = node.sort == Sort::row_sum;
      one.column_sums = node.sort == Sort::column_sum;
      if (one.row_sums) one.rows = node.rows;
      if (one.column_sums) one.columns = node.rows;
      for (NodeId buffer : one.writes) maker_[at(buffer)] = one.nodes.front();
      find_single_user_inputs(one);
      all_.push_back(std::move(one));
    }
    std::vector<std::vector<std::int32_t>> needs(all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i)
      for (NodeId read : all_[i].reads)
        if (maker_[at(read)] >= 0) needs[i].push_back(maker_[at(read)]);
    reach_.emplace(needs);
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
    return reach_->depends(node, on);
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
      const auto walks = a.walks.find(buffer);
      const double often = walks == a.walks.end() ? 1 : walks->second;
      sum += static_cast<std::int64_t>(static_cast<double>(count(buffers_[at(buffer)])) * often);
    };
    auto other = b.reads.begin();
    for (NodeId buffer : a.reads) {
      while (other != b.reads.end() && *other < buffer) ++other;
      const bool read = other != b.reads.end() && *other == buffer;
      if (read || b.makes(buffer)) add(buffer);
    }
    for (NodeId buffer : a.writes)
      if (b.reads.contains(buffer) || b.makes(buffer)) add(buffer);
    return sum;
  }

  [[nodiscard]] bool mix(const Fused& a, const Fused& b) const {
    if (!a.reduces() || !b.reduces() || a.mixed() || b.mixed() || a.row_sums == b.row_sums)
      return false;
    const Fused &rows = a.row_sums ? a : b, &columns = a.row_sums ? b : a;
    if (columns.maxima) return false;  // sums and products alone
    if (rows.space != columns.space || rows.rows * columns.columns != rows.space) return false;
    if (!mixes_orders(rows.rows, columns.columns)) return false;
    const bool full = std::any_of(rows.reads.begin(), rows.reads.end(), [&](NodeId buffer) {
      return columns.reads.contains(buffer) && buffers_[at(buffer)].elements == rows.space;
    });
    const auto i = static_cast<std::int32_t>(&a - all_.data()),
               j = static_cast<std::int32_t>(&b - all_.data());
    return full && !depends(i, j) && !depends(j, i);
  }

  void find_single_user_inputs(Fused& one) const {
    one.single_user_inputs.clear();
    for (NodeId read : one.reads) {
      const BufferUse& use = buffers_[at(read)];
      if (use.made && use.readers == 1)
        one.single_user_inputs.emplace_back(use.bytes, use.elements);
    }
    auto& keys = one.single_user_inputs;
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }
  [[nodiscard]] static bool can_fusion_increase_peak_memory(const Fused& a, const Fused& b,
                                                            std::int64_t score) {
    const auto& second = b.single_user_inputs;
    std::int64_t overhead = 0;
    for (const auto& key : a.single_user_inputs)
      if (std::binary_search(second.begin(), second.end(), key)) overhead += key.second;
    return overhead > overhead_a_byte_saved * score;
  }

  [[nodiscard]] static std::int64_t distance(const Fused& a, const Fused& b) {
    return std::max(std::abs(a.min_order() - b.max_order()),
                    std::abs(b.min_order() - a.max_order()));
  }

  /// Whether rows and columns are loops of their own, as of what is read once for all rows; else
  /// all that lies side by side is one loop.
  [[nodiscard]] bool goes_by_column(const Fused& pointwise, std::int64_t columns) const {
    return std::any_of(pointwise.reads.begin(), pointwise.reads.end(),
                       [&](NodeId read) { return buffers_[at(read)].elements == columns; });
  }
  /// simd.py: can_fuse. Whether the loops of the two are the same.
  [[nodiscard]] bool loops_meet(const Fused& a, const Fused& b) const {
    if (a.reduces() && b.reduces())
      return a.space == b.space && a.row_sums == b.row_sums && a.column_sums == b.column_sums &&
             a.rows == b.rows && a.columns == b.columns;
    if (!a.reduces() && !b.reduces()) return a.space == b.space;
    const Fused &sums = a.reduces() ? a : b, &other = a.reduces() ? b : a;
    if (sums.in_one && !sums.row_sums)
      return other.space == sums.space && goes_by_column(other, sums.columns);
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
    if (std::any_of(a.writes.begin(), a.writes.end(),
                    [&](NodeId buffer) { return b.indirect.contains(buffer); }))
      return std::nullopt;
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
    a.reads.insert(b.reads);
    a.elsewhere.insert(b.elsewhere);
    a.indirect.insert(b.indirect);
    a.walks.insert(b.walks.begin(), b.walks.end());
    for (NodeId buffer : a.writes) a.reads.erase(buffer);
    a.space = std::max(a.space, b.space);
    a.rows = std::max(a.rows, b.rows);
    a.columns = std::max(a.columns, b.columns);
    a.row_sums = a.row_sums || b.row_sums;
    a.column_sums = a.column_sums || b.column_sums;
    a.maxima = a.maxima || b.maxima;
    a.in_one = a.in_one || b.in_one;
    find_single_user_inputs(a);
    reach_->join(into, from);
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
    const Users users(buffers_.size(), order, all_);
    std::vector<bool> seen(all_.size() * all_.size(), false);
    std::vector<Pair> pairs;
    for (std::size_t buffer = 0; buffer < buffers_.size(); ++buffer) {
      const auto group = users.of(buffer);
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t k = i + 1; k < group.size() && k <= i + pairwise_attempts; ++k) {
          auto known = seen[at(group[i]) * all_.size() + at(group[k])];
          if (known) continue;
          known = true;
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
    std::vector<std::int32_t> into(all_.size());  // itself, or what it has become a part of
    std::iota(into.begin(), into.end(), 0);
    const auto now = [&](std::int32_t i) {
      while (into[at(i)] != i) i = into[at(i)];
      return i;
    };
    bool changed = false;
    for (const Pair& pair : pairs) {
      const std::int32_t a = now(pair.a), b = now(pair.b);
      if (a == b || !score_if_fusable(a, b) || creates_cycle(a, b)) continue;
      join(a, b);
      into[at(b)] = a;
      changed = true;
    }
    return changed;
  }

  const std::vector<BufferUse>& buffers_;
  std::vector<std::int32_t> maker_;  ///< of a buffer; -1: it is given
  std::vector<Fused> all_;
  std::optional<Reach> reach_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> fuse_nodes(const std::vector<SchedulerNode>& nodes,
                                                  const std::vector<BufferUse>& buffers) {
  return Fusion(nodes, buffers).run();
}

}  // namespace ac_advisor::passes::compile
