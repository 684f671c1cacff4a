#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// What Inductor counts of the nodes that are written into one reader: the loads and ops of their
/// inner_fn, those that are equal once (torch/_inductor/ops_handler.py, v2.11: OpCounterCSE).
class Expressions {
 public:
  explicit Expressions(const JointGraph& graph) : g_(graph), terms_(graph.nodes.size()) {}

  void load(NodeId n);   ///< the node is in memory
  void write(NodeId n);  ///< it is written into its readers; its operands are known
  /// StorageBox.should_realize_on_reuse, has_exceeded_max_reads (ir.py; config.py: the thresholds)
  [[nodiscard]] bool realized_on_reuse(NodeId n) const;
  [[nodiscard]] bool exceeds(NodeId n) const;

 private:
  /// How a term moves when a part of the last dimension is read.
  enum class Along : std::uint8_t {
    all,      ///< another one for each part
    halves,   ///< the same in both halves: tables of angles
    nowhere,  ///< it has no such dimension
  };
  struct Term {
    std::uint64_t base = 0;
    std::int64_t shift = 0;  ///< of the place along the last dimension
    bool is_load = false;
    Along along = Along::all;
    bool operator<(const Term& other) const {
      return std::tie(base, shift) < std::tie(other.base, other.shift);
    }
    bool operator==(const Term& other) const {
      return std::tie(base, shift) == std::tie(other.base, other.shift);
    }
  };
  using Terms = std::vector<Term>;

  [[nodiscard]] static std::uint64_t mixed(std::uint64_t a, std::uint64_t b);
  /// At places that are `by` further on; at others, in the `which`th way.
  [[nodiscard]] static Terms shifted(Terms terms, std::int64_t by);
  [[nodiscard]] static Terms elsewhere(Terms terms, std::uint64_t which);
  static void join(Terms& into, const Terms& from);
  static void add(Terms& terms, const Term& term);
  static void add_bound(Terms& terms, std::int64_t bound);
  static void add_constant(Terms& terms, double number, DType dtype);
  static void add_place(Terms& terms);
  void add_own(Terms& terms, NodeId n, std::int64_t count) const;
  [[nodiscard]] Terms joined(NodeId n) const;
  [[nodiscard]] Terms scattered(NodeId n) const;
  [[nodiscard]] const Terms& of(NodeId n) const { return terms_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] std::int64_t loads(NodeId n) const;

  const JointGraph& g_;
  std::vector<Terms> terms_;
};

}  // namespace ac_advisor::passes::compile
