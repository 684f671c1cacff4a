#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace ac_advisor::passes::compile {

using NodeId = std::int32_t;

/// A node's operands or readers, in order: up to four lie within it, as most nodes have no more,
/// and a model's graph is copied node by node.
class NodeList {
 public:
  NodeList() = default;
  NodeList(std::initializer_list<NodeId> nodes) {
    for (NodeId n : nodes) push_back(n);
  }
  NodeList(const std::vector<NodeId>& nodes) {  // NOLINT: operands are gathered in vectors
    for (NodeId n : nodes) push_back(n);
  }

  void push_back(NodeId n) {
    if (size_ == near_.size()) far_.assign(near_.begin(), near_.end());
    if (size_ < near_.size())
      near_[size_] = n;
    else
      far_.push_back(n);
    ++size_;
  }
  void clear() {
    far_.clear();
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] NodeId* begin() { return size_ > near_.size() ? far_.data() : near_.data(); }
  [[nodiscard]] NodeId* end() { return begin() + size_; }
  [[nodiscard]] const NodeId* begin() const {
    return size_ > near_.size() ? far_.data() : near_.data();
  }
  [[nodiscard]] const NodeId* end() const { return begin() + size_; }
  [[nodiscard]] NodeId& operator[](std::size_t i) { return begin()[i]; }
  [[nodiscard]] NodeId operator[](std::size_t i) const { return begin()[i]; }

 private:
  std::array<NodeId, 4> near_{};
  std::vector<NodeId> far_;  ///< all of them, once there are more
  std::size_t size_ = 0;
};

}  // namespace ac_advisor::passes::compile
