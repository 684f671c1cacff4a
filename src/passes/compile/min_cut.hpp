#pragma once

#include <cstdint>
#include <vector>

namespace ac_advisor::passes::compile {

/// A directed graph with capacities, and its least s–t cut. Our own for three reasons: the cut must
/// be the one that lies nearest the sink, as networkx.minimum_cut (3.x, which PyTorch calls) finds
/// it; a block's graph has some hundred nodes; and the core is built for WebAssembly and as a wheel
/// from four header libraries, which Boost.Graph would more than double.
class MinCut {
 public:
  static constexpr std::int64_t infinite = std::int64_t{1} << 60;

  explicit MinCut(std::int32_t nodes) : last_(static_cast<std::size_t>(nodes), -1) {}
  void edge(std::int32_t from, std::int32_t to, std::int64_t capacity);
  /// Whether each node is on the sink's side. An edge of the cut leads from a node that is not to
  /// one that is. Throws std::logic_error where no finite cut exists.
  [[nodiscard]] std::vector<bool> sink_side(std::int32_t source, std::int32_t sink);

 private:
  struct Edge {
    std::int32_t to;
    std::int32_t before;  ///< the node's edge before this one; -1: none
    std::int64_t left;    ///< capacity that no flow uses
  };
  bool layers(std::int32_t source, std::int32_t sink);
  std::int64_t push(std::int32_t from, std::int32_t sink, std::int64_t most);

  std::vector<Edge> edges_;         ///< each with its reverse after it
  std::vector<std::int32_t> last_;  ///< of a node: its edges, the last one first
  std::vector<std::int32_t> layer_;
  std::vector<std::int32_t> next_;  ///< of a node: the edge to try
};

}  // namespace ac_advisor::passes::compile
