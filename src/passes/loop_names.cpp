#include "loop_names.hpp"

#include <algorithm>

namespace ac_advisor::passes {

using ir::no_id;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

namespace {

constexpr ir::ModulePath root{-1, ir::Module::root};

/// As many bytes as the storage behind `made`, which exist before the step.
ValueId made_before(ir::Program& p, ValueId made) {
  const DType dtype = p.value(made).dtype;
  const std::int64_t bytes = p.storage(p.storage_of(made)).bytes;
  return p.make({bytes / size_of(dtype)}, dtype, ir::Role::activation, root);
}

}  // namespace

LoopNames::LoopNames(StepProgram& step, const StepConfig& config)
    : s_(step),
      c_(config),
      until_next_(config.memory.held_until_next && config.runtime.kind == Runtime::pytorch &&
                  config.runtime.cuda_graph == CudaGraph::off) {
  // A replayed graph writes its output where the step before had its own (cudagraph_trees.py).
  if (config.litgpt()) return;  // whose forward says it (litgpt.cpp)
  if (config.memory.hold_output) held_ = step.outputs;
  if (step.loss != no_id) held_.push_back(step.loss);
  if (until_next_)
    held_.insert(held_.end(), step.graph_held.begin(), step.graph_held.end());
  else
    hold(held_, Phase::forward);
}

void LoopNames::assign(ValueId loss, const std::vector<ValueId>& outputs) {
  if (!until_next_ || c_.litgpt() || loss == no_id) return;
  if (s_.micro_begin.size() == 1) {
    held_ = {s_.loss_before = made_before(s_.program, loss)};
    if (c_.memory.hold_output)
      for (ValueId output : outputs) s_.outputs_before.push_back(made_before(s_.program, output));
    held_.insert(held_.end(), s_.outputs_before.begin(), s_.outputs_before.end());
  }
  hold(held_, Phase::loss);
}

void LoopNames::hold(const std::vector<ValueId>& values, Phase phase) {
  if (!values.empty()) s_.program.emit(OpKind::hold, phase, root, values, std::vector<ValueId>{});
}

void carry_names(StepProgram& step) {
  if (step.loss_before == no_id) return;
  ir::Program& p = step.program;
  step.carried.push_back({step.loss, step.loss_before});
  // What the graph keeps is known when its backward has been written.
  const auto assigned = std::find_if(p.ops.begin(), p.ops.end(), [&](const ir::Op& op) {
    return op.kind == OpKind::hold && op.inputs > 0 && p.input(op, 0) == step.loss_before;
  });
  for (ValueId held : step.graph_held) step.graph_before.push_back(made_before(p, held));
  if (assigned == p.ops.end()) return;
  std::vector<ValueId> all(p.inputs(*assigned).begin(), p.inputs(*assigned).end());
  all.insert(all.end(), step.graph_before.begin(), step.graph_before.end());
  assigned->first_operand = static_cast<std::int32_t>(p.operands.size());
  assigned->inputs = static_cast<std::uint16_t>(all.size());
  p.operands.insert(p.operands.end(), all.begin(), all.end());
}

}  // namespace ac_advisor::passes
