#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/record.hpp"

namespace emulator {

struct Kernel;

/// One thing that a replay does again.
struct Node {
  record::Activity activity = record::Activity::kernel;
  Kernel* kernel = nullptr;
  std::uint64_t bytes = 0;
};

/// What a cudaGraph_t, cudaGraphExec_t points to. Nodes follow each other as they were captured.
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

/// A capture under way, of one stream and those that joined it.
struct Capture {
  std::uint64_t id = 0;
  int mode = 0;
  Graph* graph = nullptr;
  bool given = false;  ///< the graph is the program's (capture to graph)
  Node* last = nullptr;
};

Capture* capture_of(const void* stream);
void add_node(Capture& capture, Node node);
Capture* begin_capture(void* stream, int mode, Graph* into = nullptr);
/// Null where the stream is not captured.
Graph* end_capture(void* stream);
Graph* clone(const Graph& graph);
void replay(const Graph& graph);

}  // namespace emulator
