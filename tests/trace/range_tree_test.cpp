#include "trace/range_tree.hpp"

#include <doctest/doctest.h>

using namespace ac_advisor::trace;

namespace {

Phase phase(const RangeTree& tree, NodeId node) { return tree.node(node).phase; }
Window window(const RangeTree& tree, NodeId node) { return tree.node(node).window; }

}  // namespace

TEST_CASE("a range has one node for each path") {
  RangeTree tree;
  const NodeId a = tree.enter(RangeTree::root, "a");
  const NodeId b = tree.enter(a, "b");
  CHECK(tree.enter(a, "b") == b);
  CHECK(tree.enter(b, "b") != b);
  CHECK(tree.path(b) == "a/b");
  CHECK(tree.node(b).entered == 2);
  tree.left(b, 40);
  tree.left(b, 2);
  CHECK(tree.node(b).host_ns == 42);
}

TEST_CASE("words of a range's name tell its phase, and ranges inside inherit it") {
  const struct {
    const char* name;
    Phase phase;
  } cases[] = {
      {"forward", Phase::forward},
      {"Model.Forward", Phase::forward},
      {"loss", Phase::forward},
      {"## backward ##", Phase::backward},
      {"loss.backward", Phase::backward},
      {"Optimizer.step#AdamW.step", Phase::optimizer},
      {"Optimizer.zero_grad#AdamW.zero_grad", Phase::optimizer},
      {"recompute block 3", Phase::recompute},
      {"forward_backward", Phase::other},
      {"save checkpoint", Phase::other},
      {"data", Phase::other},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    RangeTree tree;
    const NodeId node = tree.enter(RangeTree::root, c.name);
    CHECK(phase(tree, node) == c.phase);
    CHECK(phase(tree, tree.enter(node, "inside")) == c.phase);
  }
}

TEST_CASE("a forward inside the backward is recomputation") {
  RangeTree tree;
  const NodeId backward = tree.enter(RangeTree::root, "backward");
  CHECK(phase(tree, tree.enter(backward, "block.forward")) == Phase::recompute);
}

TEST_CASE("a module's range that the backward opens again is recomputation") {
  RangeTree tree;
  tree.enter(tree.enter(RangeTree::root, "forward"), "layers.0");
  const NodeId backward = tree.enter(RangeTree::root, "backward");
  CHECK(phase(tree, tree.enter(backward, "layers.0")) == Phase::recompute);
  CHECK(phase(tree, tree.enter(backward, "layers.1")) == Phase::backward);
}

TEST_CASE(
    "in this project's trainer the ranges tell the phases: a module's again is no recomputation") {
  RangeTree tree;
  const NodeId run = tree.enter(RangeTree::root, "ac-trainer");
  const NodeId step = tree.enter(run, "step 0");
  const auto inside = [&](const char* phase_range) {
    return phase(tree, tree.enter(tree.enter(step, phase_range), "blocks.0.mlp"));
  };
  CHECK(window(tree, step) == Window::first_step);
  CHECK(inside("forward") == Phase::forward);
  CHECK(inside("recompute") == Phase::recompute);
  CHECK(inside("backward") == Phase::backward);
  CHECK(inside("optimizer") == Phase::optimizer);
  CHECK(phase(tree, tree.enter(tree.enter(step, "backward"), "loss")) == Phase::backward);
}

TEST_CASE("a collective in forward and backward is no recomputation") {
  RangeTree tree;
  tree.enter(tree.enter(RangeTree::root, "forward"), "nccl:all_gather");
  const NodeId backward = tree.enter(RangeTree::root, "backward");
  CHECK(phase(tree, tree.enter(backward, "nccl:all_gather")) == Phase::backward);
}

TEST_CASE("ops recorded for autograd while the engine runs a node are recomputation") {
  RangeTree tree;
  const NodeId node =
      tree.op(RangeTree::root, "autograd::engine::evaluate_function: MmBackward0", false);
  CHECK(phase(tree, node) == Phase::backward);
  CHECK(phase(tree, tree.op(node, "MmBackward0", true)) == Phase::backward);
  CHECK(phase(tree, tree.op(node, "aten::mm", false)) == Phase::backward);
  const NodeId again = tree.op(node, "aten::linear", true);
  CHECK(phase(tree, again) == Phase::recompute);
  CHECK(phase(tree, tree.op(again, "aten::addmm", false)) == Phase::recompute);
  // Its path is that of the range around it: an op is no range.
  CHECK(tree.path(again).empty());
}

TEST_CASE("ops recorded for autograd outside the engine are the forward's, or of their range") {
  RangeTree tree;
  const NodeId step = tree.enter(RangeTree::root, "ProfilerStep#3");
  CHECK(phase(tree, tree.op(step, "aten::linear", true)) == Phase::forward);
  CHECK(phase(tree, tree.op(step, "aten::_foreach_add_", false)) == Phase::other);
  const NodeId optimizer = tree.enter(step, "Optimizer.step#SGD.step");
  CHECK(phase(tree, tree.op(optimizer, "aten::add", true)) == Phase::optimizer);
  const NodeId backward = tree.enter(RangeTree::root, "backward");
  CHECK(phase(tree, tree.op(backward, "aten::ones_like", true)) == Phase::backward);
}

TEST_CASE("emit_nvtx's ranges are ops: their numbers are no part of the name") {
  RangeTree tree;
  const NodeId mm = tree.enter(RangeTree::root, "aten::mm, seq = 12, op_id = 7");
  CHECK(tree.enter(RangeTree::root, "aten::mm, seq = 13, op_id = 8") == mm);
  CHECK(tree.path(mm) == "aten::mm");
  const NodeId node =
      tree.enter(RangeTree::root, "autograd::engine::evaluate_function: MmBackward0, op_id = 9");
  const NodeId own = tree.enter(node, "MmBackward0, seq = 12, op_id = 10");
  CHECK(phase(tree, own) == Phase::backward);
  CHECK(phase(tree, tree.enter(own, "aten::mm, op_id = 11")) == Phase::backward);
  CHECK(phase(tree, tree.enter(own, "aten::linear, seq = 40, op_id = 12")) == Phase::recompute);
  CHECK(phase(tree, tree.enter(RangeTree::root, "Optimizer.step#SGD.step, op_id = 13")) ==
        Phase::optimizer);
}

TEST_CASE("a reentrant checkpoint's node recomputes, and runs backward nodes inside") {
  RangeTree tree;
  const NodeId node = tree.op(
      RangeTree::root, "autograd::engine::evaluate_function: CheckpointFunctionBackward", false);
  CHECK(phase(tree, node) == Phase::recompute);
  CHECK(phase(tree, tree.op(node, "aten::linear", true)) == Phase::recompute);
  const NodeId inner = tree.op(node, "autograd::engine::evaluate_function: MmBackward0", false);
  CHECK(phase(tree, inner) == Phase::backward);
}

TEST_CASE("steps are counted, the first one apart, and not inside one another") {
  for (const char* format : {"ProfilerStep#", "step ", "iteration_", "Step: "}) {
    CAPTURE(format);
    RangeTree tree;
    const NodeId first = tree.enter(RangeTree::root, format + std::string("1"));
    CHECK(window(tree, first) == Window::first_step);
    CHECK(window(tree, tree.enter(first, "forward")) == Window::first_step);
    tree.enter(first, "step 7");
    const NodeId second = tree.enter(RangeTree::root, format + std::string("2"));
    CHECK(window(tree, second) == Window::later_steps);
    CHECK(tree.enter(RangeTree::root, format + std::string("3")) == second);
    tree.left(first, 5);
    tree.left(second, 7);
    tree.left(second, 8);
    CHECK(tree.steps().first == 1);
    CHECK(tree.steps().later == 2);
    CHECK(tree.steps().first_host_ns == 5);
    CHECK(tree.steps().later_host_ns == 15);
  }
}

TEST_CASE("a range step beside a range forward is the optimizer's") {
  RangeTree tree;
  tree.enter(RangeTree::root, "forward");
  tree.enter(RangeTree::root, "backward");
  CHECK(phase(tree, tree.enter(RangeTree::root, "step")) == Phase::optimizer);
  CHECK(tree.steps().first == 0);
  CHECK(tree.steps().optimizer == 1);
}

TEST_CASE("an autograd thread works on the backward, whatever the main thread has open") {
  RangeTree tree;
  CHECK(phase(tree, tree.autograd_thread(RangeTree::root)) == Phase::backward);
  const NodeId recompute = tree.enter(RangeTree::root, "recompute");
  CHECK(tree.autograd_thread(recompute) == recompute);
}

TEST_CASE("a program with more ranges than the table holds keeps its phases and windows") {
  RangeTree tree;
  const NodeId step = tree.enter(tree.enter(RangeTree::root, "step 1"), "forward");
  const NodeId later = tree.enter(RangeTree::root, "step 2");
  for (std::size_t i = 0; i < 2 * RangeTree::max_nodes; ++i)
    tree.enter(step, "range " + std::to_string(i) + "x");
  CHECK(tree.size() == RangeTree::max_nodes);
  const NodeId other = tree.enter(step, "one more");
  CHECK(tree.path(other) == "[others]");
  CHECK(phase(tree, other) == Phase::forward);
  CHECK(window(tree, other) == Window::first_step);
  CHECK(phase(tree, tree.enter(later, "backward")) == Phase::backward);
}
