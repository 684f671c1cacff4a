#include "emulator/graph.hpp"

#include <atomic>

#include "emulator/kernel.hpp"
#include "emulator/pacing.hpp"
#include "emulator/stream.hpp"

namespace emulator {
namespace {

/// Captures that ended stay allocated: streams and events that had joined may still name them.
std::atomic<std::uint64_t> next_capture{1};

}  // namespace

Capture* capture_of(const void* stream) {
  Stream* s = stream_of(stream);
  if (s->capture != nullptr && s->capture->graph == nullptr) s->capture = nullptr;  // ended
  return s->capture;
}

void add_node(Capture& capture, Node node) {
  capture.graph->nodes.push_back(std::make_unique<Node>(node));
  capture.last = capture.graph->nodes.back().get();
}

Capture* begin_capture(void* stream, int mode, Graph* into) {
  auto* c = new Capture;
  c->id = next_capture++;
  c->mode = mode;
  c->graph = into != nullptr ? into : new Graph;
  c->given = into != nullptr;
  stream_of(stream)->capture = c;
  return c;
}

Graph* end_capture(void* stream) {
  Capture* c = capture_of(stream);
  if (c == nullptr) return nullptr;
  Graph* graph = c->graph;
  c->graph = nullptr;
  stream_of(stream)->capture = nullptr;
  return graph;
}

Graph* clone(const Graph& graph) {
  auto* copy = new Graph;
  for (const auto& node : graph.nodes) copy->nodes.push_back(std::make_unique<Node>(*node));
  return copy;
}

void replay(const Graph& graph) {
  record::touch();
  for (const auto& node : graph.nodes) {
    if (node->kernel != nullptr)
      node->kernel->launches[static_cast<std::size_t>(record::segment())].fetch_add(
          1, std::memory_order_relaxed);
    record::count(node->activity, node->bytes);
    pace();
  }
}

}  // namespace emulator
