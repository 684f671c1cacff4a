// Runs the passes of pass_table.cpp, stage by stage.
#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/model/sized.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/verify.hpp"
#include "pipeline/repeat.hpp"

namespace ac_advisor::passes {
namespace {

void verify_after(const Pass& pass, const StepProgram& step) {
  try {
    verify(step);
  } catch (const std::logic_error& error) {
    throw std::logic_error("after the pass " + std::string(pass.name) + ": " + error.what());
  }
}

/// `run(pass index)` for each pass, as often as the configuration has it run; `repeats`: but for
/// micro-batches that are as those before them.
template <typename Run>
StepProgram build(const model::ModelSpec& spec, const StepConfig& config, bool repeats, Run run) {
  validate(spec, config);
  StepProgram step;
  const auto run_stage = [&](Stage stage) {
    for (std::size_t i = 0; i < passes().size(); ++i)
      if (passes()[i]->stage == stage && passes()[i]->runs(spec, config) &&
          !(config.task.scores() && follows_forward(*passes()[i]))) {
        run(step, i);
        if (verifies_passes()) verify_after(*passes()[i], step);
      }
  };
  run_stage(Stage::before);
  const std::int64_t written = micro_batches_written(config);
  const std::size_t chunks = std::max<std::size_t>(1, step.stages.size());
  repeats = repeats && Repeat::applies(config);
  Repeat repeat;
  for (std::int64_t micro = 0; micro < written; ++micro) {
    if (repeats && repeat.is_steady(step)) {
      repeat.write_next(step, written - micro);
      ir::count(ir::Work::repeated);
      continue;
    }
    for (step.chunk = 0; step.chunk < chunks; ++step.chunk) {
      step.micro_begin.push_back(static_cast<ir::OpId>(step.program.ops.size()));
      run_stage(Stage::micro_batch);
    }
    if (repeats) repeat.written(step);
    ir::count(ir::Work::micro_batches);
  }
  run_stage(Stage::step);
  if (verifies_passes()) verify(step, make_schedule(step));
  ir::count(ir::Work::programs);
  ir::count(ir::Work::ops, step.program.ops.size());
  return step;
}

using KindCounts = std::array<std::int64_t, ir::op_kind_count>;

KindCounts count_kinds(const StepProgram& step) {
  KindCounts counts{};
  for (const ir::Op& op : step.program.ops) ++counts[static_cast<std::size_t>(op.kind)];
  return counts;
}

}  // namespace

ProgramSize size_of(const StepProgram& step) {
  const ir::Program& p = step.program;
  std::vector<bool> referred(p.storages.size(), false);
  const auto refer = [&](ir::ValueId v) {
    referred[static_cast<std::size_t>(p.storage_of(v))] = true;
  };
  for (ir::ValueId v : step.resident) refer(v);
  for (const ir::Op& op : p.ops) {
    for (ir::ValueId v : p.inputs(op)) refer(v);
    for (ir::ValueId v : p.outputs(op)) refer(v);
  }
  ProgramSize size;
  size.ops = static_cast<std::int64_t>(p.ops.size());
  for (std::size_t s = 0; s < referred.size(); ++s) {
    if (!referred[s]) continue;
    ++size.storages;
    size.bytes += p.storages[s].bytes;
  }
  return size;
}

StepProgram build_step(const model::ModelSpec& model, const StepConfig& config) {
  const std::optional<model::ModelSpec> sized = model::sized(model, config);
  const model::ModelSpec& spec = sized ? *sized : model;
  return build(spec, config, true,
               [&](StepProgram& step, std::size_t i) { passes()[i]->run(step, spec, config); });
}

StepProgram build_step_logged(const model::ModelSpec& model, const StepConfig& config,
                              std::vector<PassChange>& changes) {
  const std::optional<model::ModelSpec> sized = model::sized(model, config);
  const model::ModelSpec& spec = sized ? *sized : model;
  changes.assign(passes().size(), {});
  for (std::size_t i = 0; i < changes.size(); ++i) changes[i].pass = passes()[i];
  return build(spec, config, false, [&](StepProgram& step, std::size_t i) {
    const ProgramSize before = size_of(step);
    const KindCounts kinds_before = count_kinds(step);
    passes()[i]->run(step, spec, config);
    const ProgramSize after = size_of(step);
    const KindCounts kinds_after = count_kinds(step);
    PassChange& change = changes[i];
    ++change.runs;
    for (std::size_t k = 0; k < kinds_after.size(); ++k) {
      const std::int64_t more = kinds_after[k] - kinds_before[k];
      (more > 0 ? change.ops_added : change.ops_removed) += more > 0 ? more : -more;
    }
    change.storages += after.storages - before.storages;
    change.storage_bytes += after.bytes - before.bytes;
  });
}

}  // namespace ac_advisor::passes
