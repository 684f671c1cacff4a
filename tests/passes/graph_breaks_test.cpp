// What Dynamo makes of a block whose graph it breaks: pieces, each with an autograd node.
// tests/oracle has real steps.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::Module;

/// The modules that the pieces of a block end in, in order.
std::vector<Module> pieces_of_block(const StepConfig& config, std::int16_t block) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  std::vector<Module> pieces;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == ir::OpKind::compiled_unit && op.module.block == block &&
        op.phase == ir::Phase::forward)
      pieces.push_back(op.module.leaf);
  return pieces;
}

std::ptrdiff_t count(const StepConfig& config, ir::OpKind kind) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  return std::count_if(step.program.ops.begin(), step.program.ops.end(),
                       [&](const ir::Op& op) { return op.kind == kind; });
}

StepConfig zero3(AcMode ac) {
  StepConfig c = small_config();
  c.layout.shard = Sharding::zero3;
  c.layout.world = 2;
  c.memory.kernels = Kernels::compiled;
  c.memory.ac = ac;
  return c;
}

StepConfig automodel(AcMode ac) {
  StepConfig c = small_config();
  c.layout.shard = Sharding::fsdp2;
  c.layout.world = 2;
  c.layout.cp = 2;
  c.run.attention = Attention::flash;
  c.runtime.framework = "automodel";
  c.memory.kernels = Kernels::compiled;
  c.memory.ac = ac;
  c.memory.scope = ac == AcMode::full ? AcScope::submodule : AcScope::block;
  return c;
}

}  // namespace

TEST_CASE("compiled blocks of ZeRO 3 are norms, attention, activations and sums by themselves") {
  CHECK(pieces_of_block(zero3(AcMode::none), 1) ==
        std::vector<Module>{Module::norm1, Module::attention_core, Module::block, Module::norm2,
                            Module::activation, Module::activation, Module::block});
  StepConfig eager = zero3(AcMode::none);
  eager.memory.kernels = Kernels::eager;
  CHECK(count(zero3(AcMode::none), ir::OpKind::mm) == count(eager, ir::OpKind::mm));
}

TEST_CASE("nothing is compiled in a checkpoint that Python calls") {
  CHECK(pieces_of_block(zero3(AcMode::full), 1).empty());
  StepConfig every = zero3(AcMode::every);
  every.memory.ac_arg = 2;
  CHECK(pieces_of_block(every, 0).empty());
  CHECK(pieces_of_block(every, 1).size() == 7);
  CHECK(pieces_of_block(automodel(AcMode::selective), 1).empty());
}

TEST_CASE("AutoModel's compiled layers leave out attention of a shared sequence") {
  CHECK(pieces_of_block(automodel(AcMode::none), 1) ==
        std::vector<Module>{Module::norm1, Module::rope, Module::o_proj, Module::block});
  // Attention's checkpoint is Python's, the MLP's a part of the graph around it.
  CHECK(pieces_of_block(automodel(AcMode::full), 1) ==
        std::vector<Module>{Module::norm1, Module::block});
}

}  // namespace ac_advisor::test
