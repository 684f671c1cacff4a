#include "emulator/graph.hpp"

#include <algorithm>
#include <cstdio>

#include "emulator/kernel.hpp"
#include "emulator/runtime/api.hpp"
#include "emulator/stream.hpp"

namespace emulator::runtime {
namespace {

Graph* graph_of(cudaGraph_t h) { return reinterpret_cast<Graph*>(h); }
Graph* graph_of(cudaGraphExec_t h) { return reinterpret_cast<Graph*>(h); }
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/// The node that is the next one's only dependency.
std::size_t position(const Graph& graph, const Node* node) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const auto& n) { return n.get() == node; });
  return static_cast<std::size_t>(found - graph.nodes.begin());
}

}  // namespace

ANSWER cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (capture_of(stream) != nullptr) return fail(cudaErrorIllegalState);
  if (stream == nullptr) return fail(cudaErrorStreamCaptureUnsupported);
  begin_capture(stream, mode);
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                 const cudaGraphNode_t*, const cudaGraphEdgeData*,
                                                 std::size_t, cudaStreamCaptureMode mode) {
  begin_capture(stream, mode, graph_of(graph));
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Graph* captured = end_capture(stream);
  if (captured == nullptr) return fail(cudaErrorIllegalState);
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      capture_of(stream) == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id, cudaGraph_t* graph,
                                            const cudaGraphNode_t** dependencies,
                                            const cudaGraphEdgeData** edges, std::size_t* count) {
  Capture* capture = capture_of(stream);
  *status = capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  if (edges != nullptr) *edges = nullptr;
  if (capture == nullptr) return cudaSuccess;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  if (dependencies != nullptr)
    *dependencies = reinterpret_cast<const cudaGraphNode_t*>(&capture->last);
  if (count != nullptr) *count = capture->last == nullptr ? 0 : 1;
  return cudaSuccess;
}
ANSWER cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t*,
                                                       const cudaGraphEdgeData*, std::size_t,
                                                       unsigned) {
  return cudaSuccess;
}
ANSWER cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

ANSWER cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = reinterpret_cast<cudaGraph_t>(new Graph);
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphClone(cudaGraph_t* copy, cudaGraph_t graph) {
  *copy = reinterpret_cast<cudaGraph_t>(clone(*graph_of(graph)));
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                        unsigned long long) {
  *exec = reinterpret_cast<cudaGraphExec_t>(clone(*graph_of(graph)));
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
ANSWER cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete graph_of(exec);
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo* result) {
  Graph* fresh = clone(*graph_of(graph));
  graph_of(exec)->nodes = std::move(fresh->nodes);
  delete fresh;
  result->result = cudaGraphExecUpdateSuccess;
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
ANSWER cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (Capture* capture = capture_of(stream)) {
    for (const auto& node : graph_of(exec)->nodes) add_node(*capture, *node);
    return cudaSuccess;
  }
  replay(*graph_of(exec));
  return cudaSuccess;
}

ANSWER cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes,
                                     std::size_t* count) {
  const Graph& graph = *graph_of(handle);
  if (nodes != nullptr)
    for (std::size_t i = 0; i < *count; ++i)
      nodes[i] = i < graph.nodes.size() ? reinterpret_cast<cudaGraphNode_t>(graph.nodes[i].get())
                                        : nullptr;
  *count = graph.nodes.size();
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes,
                                         std::size_t* count) {
  const Graph& graph = *graph_of(handle);
  const std::size_t roots = graph.nodes.empty() ? 0 : 1;
  if (nodes != nullptr && roots == 1)
    nodes[0] = reinterpret_cast<cudaGraphNode_t>(graph.nodes.front().get());
  *count = roots;
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                     cudaGraphEdgeData*, std::size_t* count) {
  const Graph& graph = *graph_of(handle);
  const std::size_t edges = graph.nodes.empty() ? 0 : graph.nodes.size() - 1;
  if (from != nullptr && to != nullptr)
    for (std::size_t i = 0; i < std::min(edges, *count); ++i) {
      from[i] = reinterpret_cast<cudaGraphNode_t>(graph.nodes[i].get());
      to[i] = reinterpret_cast<cudaGraphNode_t>(graph.nodes[i + 1].get());
    }
  *count = edges;
  return cudaSuccess;
}
/// The allocator asks which captured node a block was last used by; ours follow each other.
ANSWER cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*,
                                                cudaGraphEdgeData*, std::size_t* count) {
  *count = 0;
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  const auto* node = reinterpret_cast<const Node*>(handle);
  if (node->activity == record::Activity::kernel)
    *type = cudaGraphNodeTypeKernel;
  else if (node->activity == record::Activity::memory_set)
    *type = cudaGraphNodeTypeMemset;
  else
    *type = cudaGraphNodeTypeMemcpy;
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t, const cudaGraphNode_t*,
                                         std::size_t) {
  static Node empty;
  *node = reinterpret_cast<cudaGraphNode_t>(&empty);
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t handle,
                                          const cudaGraphNode_t*, std::size_t,
                                          const cudaKernelNodeParams* params) {
  Kernel* kernel = find_kernel(params->func);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  Graph& graph = *graph_of(handle);
  graph.nodes.push_back(std::make_unique<Node>(Node{record::Activity::kernel, kernel, 0}));
  *node = reinterpret_cast<cudaGraphNode_t>(graph.nodes.back().get());
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, const char* path, unsigned) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return fail(cudaErrorOperatingSystem);
  const Graph& graph = *graph_of(handle);
  std::fputs("digraph graph_of_kernels {\n", file);
  for (const auto& node : graph.nodes)
    std::fprintf(file, "  n%zu [label=\"%s\"];\n", position(graph, node.get()),
                 node->kernel == nullptr ? "copy" : node->kernel->name.c_str());
  for (std::size_t i = 1; i < graph.nodes.size(); ++i)
    std::fprintf(file, "  n%zu -> n%zu;\n", i - 1, i);
  std::fputs("}\n", file);
  std::fclose(file);
  return cudaSuccess;
}
ANSWER cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void*, cudaHostFn_t, unsigned,
                                        unsigned) {
  *object = reinterpret_cast<cudaUserObject_t>(new char);
  return cudaSuccess;
}
ANSWER cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) {
  return cudaSuccess;
}
ANSWER cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned) { return cudaSuccess; }

}  // namespace emulator::runtime
