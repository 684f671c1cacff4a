#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trace/collector.hpp"
#include "trace/timeline.hpp"

namespace ac_advisor::trace {

/// What is open on each thread of a timeline, at a time that only goes forward: ranges, and ops of
/// PyTorch, whose own time and calls it adds up as they end.
class OpenRanges {
 public:
  struct Place {
    NodeId node = RangeTree::root;
    std::int64_t Attribution::*by = &Attribution::none;
    std::uint32_t op = Timeline::no_name;  ///< the innermost one
  };

  OpenRanges(const Timeline& timeline, RangeTree& tree, Collector& collector);

  Place at(std::uint16_t thread, std::int64_t time);
  /// Opens it inside what its thread has open.
  void open(const Timeline::Interval& interval);
  /// All that is open ends.
  void close();

 private:
  struct Open {
    std::int64_t start = 0, end = 0;
    std::int64_t inner_ns = 0;  ///< of the ops inside
    NodeId node = RangeTree::root;
    std::uint32_t op = Timeline::no_name;
    bool is_op = false, has_op = false;
  };
  using Stack = std::vector<Open>;

  /// The innermost one that is open; null where there is none.
  const Open* top(std::uint16_t thread, std::int64_t time);
  void end(Stack& stack);
  NodeId op_node(const Timeline::Interval& interval, NodeId parent);

  const Timeline& timeline_;
  RangeTree& tree_;
  Collector& collector_;
  std::vector<Stack> stacks_;          ///< by thread
  std::vector<bool> autograd_;         ///< by thread
  std::vector<std::uint8_t> is_view_;  ///< by name
  std::vector<std::uint8_t> is_engine_;
  std::vector<std::uint16_t> others_;  ///< threads whose ranges hold for those that have none
  std::unordered_map<std::uint32_t, NodeId> forward_;  ///< the module of a gradient's forward op
};

}  // namespace ac_advisor::trace
