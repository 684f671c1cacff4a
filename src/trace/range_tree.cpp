#include "trace/range_tree.hpp"

#include <algorithm>
#include <cctype>

#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t max_name = 160;
constexpr std::size_t max_names_of_forward = 4096;
constexpr std::size_t reserved_nodes = 1 + phase_names.size() * window_names.size();
/// What PyTorch's engine calls the range of one node of the backward graph.
constexpr std::string_view engine = "autograd::engine::evaluate_function: ";

/// The range around a run of this project's trainer (src/trainer/run.cpp).
constexpr std::string_view trainer = "ac-trainer";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// "MmBackward0", "torch::autograd::CppFunction<…>Backward": the engine's own node, not an op.
bool is_backward_node(std::string_view name) {
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0)
    name.remove_suffix(1);
  return name.ends_with("Backward") || has(name, "AccumulateGrad");
}

/// torch.autograd.profiler.emit_nvtx appends these to an op's name.
struct OpName {
  std::string_view name;
  bool is_op = false;
  bool recorded = false;
};
OpName split_op_name(std::string_view text) {
  OpName op{text, false, has(text, ", seq = ")};
  for (const std::string_view tail : {", seq = ", ", op_id = ", ", sizes = "})
    op.name = op.name.substr(0, op.name.find(tail));
  op.is_op = op.recorded || has(op.name, "::") || is_backward_node(op.name);
  return op;
}

/// "ProfilerStep#12", "step 12", "iteration_3": one step of training; the name without its number.
std::string_view step_name(std::string_view name) {
  static constexpr std::string_view names[] = {
      "profilerstep", "step",          "iteration",     "iter",       "train_step", "train step",
      "trainstep",    "training_step", "training step", "train_iter", "global_step"};
  std::string_view stem = name;
  while (!stem.empty() && (std::isdigit(static_cast<unsigned char>(stem.back())) != 0 ||
                           has("#_ :=-", stem.substr(stem.size() - 1))))
    stem.remove_suffix(1);
  const std::string word = lower(stem);
  return std::find(std::begin(names), std::end(names), word) != std::end(names) ? stem : "";
}

/// What the words of a range's name say; `other`: nothing, or two things.
Phase phase_of_words(const std::string& name) {
  if (has(name, "recompute") || has(name, "rematerial")) return Phase::recompute;
  const bool backward = has(name, "backward") || has(name, "bwd");
  const bool forward = has(name, "forward") || has(name, "fwd");
  if (backward && forward) return Phase::other;
  if (backward) return Phase::backward;
  if (has(name, "optimizer") || has(name, "optim.") || has(name, "zero_grad"))
    return Phase::optimizer;
  return forward || name == "loss" ? Phase::forward : Phase::other;
}

/// "nn.Module: Linear" of "nn.Module: Linear_27".
std::string_view class_of(std::string_view module) {
  const std::size_t number = module.find_last_not_of("0123456789");
  return number != module.npos && module[number] == '_' ? module.substr(0, number) : module;
}

bool in_backward(Phase phase) { return phase == Phase::backward || phase == Phase::recompute; }

}  // namespace

bool names_step(std::string_view range) { return !step_name(range).empty(); }
bool names_engine(std::string_view op) { return op.starts_with(engine); }

RangeTree::RangeTree() {
  nodes_.reserve(max_nodes);
  nodes_.emplace_back();
  for (std::size_t w = 0; w < window_names.size(); ++w)
    for (std::size_t p = 0; p < phase_names.size(); ++p)
      nodes_.push_back(
          {.name = "[others]", .phase = static_cast<Phase>(p), .window = static_cast<Window>(w)});
}

NodeId RangeTree::child(NodeId parent, std::string_view name, Phase phase, Window window,
                        bool in_engine) {
  std::string key = std::to_string(parent) + '/' + std::to_string(static_cast<int>(phase)) + '/' +
                    std::to_string(static_cast<int>(window)) + (in_engine ? "e/" : "/");
  key += name.substr(0, max_name);
  if (const auto found = ids_.find(key); found != ids_.end()) return found->second;
  if (nodes_.size() == max_nodes)
    return static_cast<NodeId>(1 + static_cast<std::size_t>(window) * phase_names.size() +
                               static_cast<std::size_t>(phase));
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back({parent, std::string(name.substr(0, max_name)), phase, window, in_engine,
                    nodes_[parent].told || name == trainer,
                    nodes_[parent].in_module || name.starts_with(module_prefix),
                    nodes_[parent].block});
  ids_.emplace(std::move(key), id);
  return id;
}

NodeId RangeTree::variant(NodeId parent, Phase phase, bool in_engine) {
  if (phase == Phase::recompute && nodes_[parent].block != 0) parent = nodes_[parent].block;
  const Node& node = nodes_[parent];
  const bool same = node.phase == phase && node.in_engine == in_engine;
  return same ? parent : child(parent, "", phase, node.window, in_engine);
}

NodeId RangeTree::autograd_thread(NodeId parent) {
  const Node& node = nodes_[parent];
  return in_backward(node.phase) ? parent : variant(parent, Phase::backward, node.in_engine);
}

// The forward records its ops for autograd; a checkpoint's recomputation does so again, while the
// engine runs a node; the engine's gradient ops and the optimizer's are not recorded.
Phase RangeTree::op_phase(NodeId parent, std::string_view name, bool recorded) const {
  if (name.starts_with(engine))
    return has(name, "CheckpointFunctionBackward") ? Phase::recompute : Phase::backward;
  if (name == "CheckpointFunctionBackward") return Phase::recompute;
  const Node& outer = nodes_[parent];
  if (!recorded || is_backward_node(name)) return outer.phase;
  if (outer.in_engine && outer.phase == Phase::backward) return Phase::recompute;
  return !outer.in_engine && outer.phase == Phase::other ? Phase::forward : outer.phase;
}

Phase RangeTree::range_phase(NodeId parent, std::string_view name) {
  const Phase outer = nodes_[parent].phase;
  // A module of the trainer's may be called "loss", in whatever phase.
  if (nodes_[parent].told && outer != Phase::other) return outer;
  const Phase said = phase_of_words(lower(name));
  if (said == Phase::forward && in_backward(outer)) return Phase::recompute;
  if (said != Phase::other) return said;
  // A module's range that the forward opened, opened again in the backward; a collective is in
  // both, and where the engine's nodes are ranges too, the ops tell.
  if (nodes_[parent].in_engine || lower(name).starts_with("nccl")) return outer;
  const std::string key(name.substr(0, max_name));
  if (outer == Phase::backward && seen_in_forward_.contains(key)) return Phase::recompute;
  if ((outer == Phase::forward || outer == Phase::other) &&
      seen_in_forward_.size() < max_names_of_forward)
    seen_in_forward_.insert(key);
  return outer;
}

NodeId RangeTree::op(NodeId parent, std::string_view name, bool recorded) {
  return variant(parent, op_phase(parent, name, recorded),
                 nodes_[parent].in_engine || name.starts_with(engine));
}

NodeId RangeTree::enter(NodeId parent, std::string_view text) {
  const OpName op = split_op_name(text);
  Window window = nodes_[parent].window;
  std::string_view name = op.name;
  Phase phase = Phase::other;
  if (op.is_op) {
    phase = op_phase(parent, name, op.recorded);
  } else if (const std::string_view step = step_name(name);
             window == Window::outside && nodes_[parent].phase == Phase::other && !step.empty()) {
    // Beside a range "forward", a range "step" is the optimizer's.
    if (phases_at_top_ && lower(step) == "step") {
      phase = Phase::optimizer;
      ++steps_.optimizer;
    } else {
      name = step;
      window = steps_.first == 0 ? Window::first_step : Window::later_steps;
      ++(steps_.first == 0 ? steps_.first : steps_.later);
    }
  } else {
    phase = range_phase(parent, name);
    if (window == Window::outside && phase == Phase::optimizer && has(lower(name), "step") &&
        nodes_[parent].phase != Phase::optimizer)
      ++steps_.optimizer;
  }
  if (window == Window::outside && (phase == Phase::forward || phase == Phase::backward))
    phases_at_top_ = true;
  const bool in_engine = nodes_[parent].in_engine || name.starts_with(engine);
  const bool module = !op.is_op && name.starts_with(module_prefix);
  const bool again = module && (in_engine || in_backward(nodes_[parent].phase));
  const NodeId id =
      again ? module_again(parent, name, in_engine) : child(parent, name, phase, window, in_engine);
  if (module && !again && id >= reserved_nodes)
    first_call_.try_emplace(std::string(name.substr(0, max_name)), id);
  ++nodes_[id].entered;
  return id;
}

void RangeTree::left(NodeId id, std::int64_t host_ns) {
  Node& node = nodes_[id];
  add_to(node.host_ns, host_ns);
  if (!is_step(id)) return;
  add_to(node.window == Window::first_step ? steps_.first_host_ns : steps_.later_host_ns, host_ns);
}

bool RangeTree::is_step(NodeId id) const {
  return id >= reserved_nodes && nodes_[id].window != Window::outside &&
         nodes_[nodes_[id].parent].window == Window::outside;
}

// It had no work: nothing was added up for the window that it was given.
void RangeTree::not_a_step(NodeId id) {
  std::int64_t& steps = nodes_[id].window == Window::first_step ? steps_.first : steps_.later;
  steps = std::max<std::int64_t>(steps - 1, 0);
}

std::vector<std::string> RangeTree::modules(NodeId id) const {
  std::vector<std::string> names;
  for (; id != root && nodes_[id].in_module; id = nodes_[id].parent)
    if (nodes_[id].name.starts_with(module_prefix)) names.push_back(nodes_[id].name);
  std::reverse(names.begin(), names.end());
  return names;
}

void RangeTree::module_ran(NodeId id) {
  if (!nodes_[id].in_module || !modules_seen_.insert(id).second) return;
  std::string above;
  for (const std::string& name : modules(id)) {
    siblings_[above + '/' + std::string(class_of(name))].insert(name);
    above += '/' + name;
  }
}

NodeId RangeTree::graft(NodeId parent, NodeId forward) {
  const std::vector<std::string> names = modules(forward);
  // A wrapper of torch.distributed's around the module that it checkpoints.
  static constexpr std::string_view wrapper = "nn.Module: CheckpointWrapper";
  NodeId node = parent, outermost = 0, block = 0;
  std::string above;
  for (const std::string& name : names) {
    const Node& outer = nodes_[node];
    node = child(node, name, outer.phase, outer.window, outer.in_engine);
    const auto same_class = siblings_.find(above + '/' + std::string(class_of(name)));
    const bool repeated = same_class != siblings_.end() && same_class->second.size() > 1;
    const bool wrapped = block != 0 && class_of(nodes_[block].name) == wrapper;
    if (outermost == 0) outermost = node;
    if ((block == 0 && repeated) || wrapped) block = node;
    above += '/' + name;
  }
  // A model of one block has no siblings to tell it by: its whole is all that is known.
  if (node >= reserved_nodes && node != parent) nodes_[node].block = block == 0 ? outermost : block;
  return node;
}

// A module that is called while the engine runs is recomputed: below the engine's node it has the
// modules that it had in forward, whichever of them the checkpoint called.
NodeId RangeTree::module_again(NodeId parent, std::string_view name, bool in_engine) {
  const auto forward = first_call_.find(std::string(name.substr(0, max_name)));
  NodeId node = parent;
  if (forward == first_call_.end()) {
    node = child(variant(parent, Phase::recompute, in_engine), name, Phase::recompute,
                 nodes_[parent].window, in_engine);
  } else {
    while (node != root && nodes_[node].in_module) node = nodes_[node].parent;
    node = graft(variant(node, Phase::recompute, in_engine), forward->second);
  }
  if (node >= reserved_nodes) nodes_[node].block = 0;  // its frames tell it, no block stands for it
  return node;
}

std::string RangeTree::path(NodeId id) const {
  std::vector<const std::string*> names;
  for (; id != root; id = nodes_[id].parent)
    if (!nodes_[id].name.empty()) names.push_back(&nodes_[id].name);
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    path += (path.empty() ? "" : "/") + **name;
  return path;
}

}  // namespace ac_advisor::trace
