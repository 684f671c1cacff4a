// TorchTitan's and torchtune's own layers: what their programs have that transformers' have not.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::test {
namespace {

passes::StepProgram step_of(const char* name, const OptionList& options) {
  const model::ModelSpec spec = model::load_model(name);
  return passes::build_step(spec, advise::resolve(spec, options).config);
}

std::int64_t parameters_of(const passes::StepProgram& step, ir::Module leaf) {
  return std::count_if(step.parameters.begin(), step.parameters.end(),
                       [&](const passes::Parameter& p) { return p.module.leaf == leaf; });
}

std::int64_t in_forward(const passes::StepProgram& step, ir::OpKind kind) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(), [&](const ir::Op& op) {
    return op.kind == kind && op.phase == ir::Phase::forward;
  });
}

}  // namespace

TEST_CASE("TorchTitan's tied head is a unit of its own over the embedding's shard") {
  const passes::StepProgram step =
      step_of("qwen3-0.6b", {{"--framework", "torchtitan"}, {"--world", "8"}});
  const passes::Parameter& head = step.parameters.back();
  const passes::Parameter& embedding = step.parameters.front();
  REQUIRE(head.module.leaf == ir::Module::lm_head);
  CHECK(head.tied == embedding.value);
  CHECK(head.stored == embedding.stored);
  CHECK(step.optimized.size() == step.parameters.size() - 1);  // one optimizer state for both
  // 28 blocks, the embedding, [norm, output]; the root has nothing left
  CHECK(in_forward(step, ir::OpKind::all_gather) == 30);
}

TEST_CASE("TorchTitan's tied head is the embedding's weight where nothing is sharded") {
  const passes::StepProgram step = step_of("qwen3-0.6b", {{"--framework", "torchtitan"}});
  CHECK(parameters_of(step, ir::Module::lm_head) == 0);
}

TEST_CASE("TorchTitan's experts have three weights each, and rows padded to eights for each") {
  const passes::StepProgram step = step_of(
      "qwen3-30b-a3b", {{"--framework", "torchtitan"}, {"--world", "8"}, {"--seq", "4096"}});
  CHECK(parameters_of(step, ir::Module::experts) == 3 * 48);
  CHECK(in_forward(step, ir::OpKind::grouped_mm) == 3 * 48);
  const ir::Program& p = step.program;
  for (const ir::Op& op : p.ops)
    if (op.kind == ir::OpKind::grouped_mm && op.phase == ir::Phase::forward)
      CHECK(p.value(p.input(op, 0)).shape[0] ==
            4096 * 8 + 128 * 8);  // eight experts a token of 128
}

TEST_CASE("TorchTitan's table of angles is made while that of to_empty is there") {
  const passes::StepProgram step =
      step_of("qwen3-8b", {{"--framework", "torchtitan"}, {"--world", "8"}, {"--seq", "4096"}});
  constexpr std::int64_t kib = std::int64_t{1} << 10, mib = kib << 10;
  REQUIRE(step.made_anew.size() == 1);
  // 4096 positions of 128 cosines and 128 sines in fp32; positions, angles, both halves' angles,
  // their cosines and sines
  const std::vector<std::int64_t> beside{4 * mib, 16 * kib, 1 * mib, 2 * mib, 2 * mib, 2 * mib};
  CHECK(step.made_anew.front().beside == beside);
}

TEST_CASE("a block without experts among TorchTitan's is not of its classes") {
  model::ModelSpec spec = model::load_model("qwen3-30b-a3b");
  CHECK(model::layer_forms(TransformerImpl::torchtitan, spec).has_value());
  spec.sparse_block[3] = false;
  CHECK_FALSE(model::layer_forms(TransformerImpl::torchtitan, spec).has_value());
}

TEST_CASE("torchtune's phi3 projects apart what transformers' projects together") {
  const passes::StepProgram step = step_of("phi-3-mini", {{"--framework", "torchtune"}});
  CHECK(parameters_of(step, ir::Module::q_proj) == 32);
  CHECK(parameters_of(step, ir::Module::gate_proj) == 32);
  CHECK(parameters_of(step, ir::Module::qkv_proj) == 0);
  CHECK(parameters_of(step, ir::Module::gate_up_proj) == 0);
}

TEST_CASE("with adapters each block of torchtune's phi3 has a table of angles, not llama's") {
  const OptionList options{{"--framework", "torchtune"}, {"--lora", "8"}};
  // a table and its frequencies each
  CHECK(step_of("phi-3-mini", options).buffers.size() == 2 * 32);
  CHECK(step_of("llama-3.1-8b", options).buffers.size() == 2);
}

TEST_CASE("torchtune's gemma2 makes a mask in each block, of windows at any length") {
  const passes::StepProgram step =
      step_of("gemma-2-2b", {{"--framework", "torchtune"}, {"--seq", "1024"}});
  CHECK(in_forward(step, ir::OpKind::triangle) == 26 + 2 * 13);  // every second block has a window
  CHECK(in_forward(step, ir::OpKind::tanh) == 26 + 1);           // scores, and hidden states
}

}  // namespace ac_advisor::test
