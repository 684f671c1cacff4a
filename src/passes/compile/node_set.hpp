#pragma once

#include <algorithm>
#include <vector>

#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// A few nodes, in order: what a kernel reads. A std::set's words for what a vector holds, since
/// fusing walks over them for every pair of kernels.
class NodeSet {
 public:
  [[nodiscard]] auto begin() const { return nodes_.begin(); }
  [[nodiscard]] auto end() const { return nodes_.end(); }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] bool contains(NodeId n) const {
    return std::binary_search(nodes_.begin(), nodes_.end(), n);
  }
  /// Whether it was not there.
  bool insert(NodeId n) {
    if (nodes_.empty()) nodes_.reserve(4);
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), n);
    if (at != nodes_.end() && *at == n) return false;
    nodes_.insert(at, n);
    return true;
  }
  void insert(const NodeSet& others) {
    std::vector<NodeId> all;
    all.reserve(size() + others.size());
    std::set_union(begin(), end(), others.begin(), others.end(), std::back_inserter(all));
    nodes_ = std::move(all);
  }
  /// Whether it was there.
  bool erase(NodeId n) {
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), n);
    if (at == nodes_.end() || *at != n) return false;
    nodes_.erase(at);
    return true;
  }

 private:
  std::vector<NodeId> nodes_;
};

}  // namespace ac_advisor::passes::compile
