#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "joint_graph.hpp"

namespace ac_advisor::passes::compile {

/// A graph of its own: what it is given, then its nodes. Of a backward they are in the order of
/// reordering_to_mimic_autograd_engine (partitioners.py): what was a part of the forward comes
/// right before the first node that needs it.
struct OwnGraph {
  JointGraph graph;
  std::vector<NodeId> given, results;
};

inline NodeId append(JointGraph& graph, Node node) {
  const NodeId n = graph.size();
  node.users.clear();
  for (NodeId in : node.inputs) {
    auto& users = graph.node(in).users;
    if (std::find(users.begin(), users.end(), n) == users.end()) users.push_back(n);
  }
  graph.nodes.push_back(std::move(node));
  return n;
}

}  // namespace ac_advisor::passes::compile
