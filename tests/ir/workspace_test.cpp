// Scratch of LibTorch's CUDA kernels, by arithmetic on its sources' allocations.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "passes/small_model.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

/// Workspace of the first op of `kind` in the small model's step.
std::int64_t workspace(ir::OpKind kind, const StepConfig& config, model::ModelSpec model,
                       const ir::WorkspaceTarget& target = {}) {
  const ir::Program program = passes::build_step(model, config).program;
  const auto op = std::find_if(program.ops.begin(), program.ops.end(),
                               [&](const ir::Op& o) { return o.kind == kind; });
  REQUIRE(op != program.ops.end());
  return ir::workspace_bytes(program, *op, target);
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

/// 2 heads of 64 over 2 of keys and values.
model::ModelSpec two_heads() {
  model::ModelSpec model = small_model();
  model.heads = model.kv_heads = 2;
  model.head_dim = model.rotary_dim = 64;
  return model;
}

StepConfig sequences(std::int64_t batch, std::int64_t seq) {
  StepConfig config = small_config();
  config.run.batch = batch;
  config.run.seq = seq;
  config.run.attention = Attention::flash;
  return config;
}

}  // namespace

TEST_CASE("the embedding's gradient has scratch on a GPU beyond 3072 tokens") {
  const model::ModelSpec model = small_model();
  CHECK(workspace(ir::OpKind::embedding_backward, sequences(1, 3072), model) == 0);
  const std::int64_t tokens = 4096, runs = std::min(tokens, model.vocab),
                     parts = tokens / 10 + runs;
  CHECK(workspace(ir::OpKind::embedding_backward, sequences(1, tokens), model) ==
        2 * rounded(8 * tokens) + 3 * rounded(8 * runs) + rounded(8 * parts) +
            rounded(4 * parts * model.hidden) + 2 * 512);
}

TEST_CASE("flash attention cuts the keys where there are too few queries for the device") {
  // 2 heads x 512 / 64 = 16 tiles for 264 slots, 2 blocks of 256 keys: both at once, 32 of 264.
  const std::int64_t rows = 2 * 2 * 512;  // splits x heads x tokens
  CHECK(workspace(ir::OpKind::sdpa, sequences(1, 512), two_heads()) ==
        rounded(4 * rows) + rounded(4 * rows * 64));
  // One block of keys is not cut, nor is anything from 0.8 x 264 = 211.2 tiles on: 14 x 2 x 8 =
  // 224.
  CHECK(workspace(ir::OpKind::sdpa, sequences(1, 256), two_heads()) == 0);
  CHECK(workspace(ir::OpKind::sdpa, sequences(14, 512), two_heads()) == 0);
}

TEST_CASE("flash attention's backward has a sum a row and dq in fp32") {
  // 2 heads x 256 tokens: 130 rounded to 128s
  const std::int64_t bytes = rounded(4 * 2 * 256) + rounded(4 * 2 * 256 * 64);
  CHECK(workspace(ir::OpKind::sdpa_backward, sequences(1, 130), two_heads()) == bytes);
  ir::WorkspaceTarget target;
  target.trainer = true;
  CHECK(workspace(ir::OpKind::sdpa_backward, sequences(1, 130), two_heads(), target) ==
        bytes + 512);
}

TEST_CASE(
    "where deterministic, flash attention's backward has dq in as many parts as fill the device") {
  ir::WorkspaceTarget target;
  target.deterministic = true;
  // 132 processors, 2 heads of 3 sequences: 22 parts; of 5 14, which are more than 13.2.
  for (const auto& [batch, parts] : {std::pair<std::int64_t, std::int64_t>{3, 22}, {5, 14}}) {
    const std::int64_t rows = batch * 2 * 256;
    CHECK(workspace(ir::OpKind::sdpa_backward, sequences(batch, 256), two_heads(), target) ==
          rounded(4 * rows) + rounded(4 * rows * 64 * parts));
  }
}

namespace {

/// An attention by the memory-efficient kernel, and its backward.
struct Efficient {
  ir::Program program;
  ir::OpId forward = 0, backward = 0;
  ir::ValueId log_sums = 0;
};

Efficient efficient(const nlohmann::json& sizes) {
  Efficient made;
  ir::Program& p = made.program;
  const auto number = [&](const char* key) { return sizes.at(key).get<std::int64_t>(); };
  const DType dtype = sizes.at("dtype") == "fp32" ? DType::f32 : DType::bf16;
  const auto tensor = [&] {
    return p.make({number("batch"), number("heads"), number("seq"), number("dim")}, dtype,
                  ir::Role::activation, {});
  };
  const ir::ValueId q = tensor(), k = tensor(), v = tensor(), y = tensor(), g = tensor(),
                    dq = tensor(), dk = tensor(), dv = tensor();
  made.log_sums = p.make({number("batch"), number("heads"), (number("seq") + 31) / 32 * 32},
                         DType::f32, ir::Role::activation, {});
  ir::Sdpa attributes;
  attributes.kernel = ir::SdpaKernel::efficient;
  made.forward =
      p.emit(ir::OpKind::sdpa, ir::Phase::forward, {}, {q, k, v}, {y, made.log_sums}, attributes);
  made.backward = p.emit(ir::OpKind::sdpa_backward, ir::Phase::backward, {},
                         {g, q, k, v, y, made.log_sums}, {dq, dk, dv}, attributes);
  return made;
}

}  // namespace

TEST_CASE("the memory-efficient kernel's scratch is what PyTorch asks for on five devices") {
  std::ifstream file(std::string(source_dir) + "/tests/oracle/efficient_scratch.json");
  REQUIRE(file);
  const nlohmann::json measured = nlohmann::json::parse(file);
  CHECK(measured.size() == 5);
  for (const auto& [bound_gpu, cases] : measured.items()) {
    const auto& gpu = bound_gpu;
    ir::WorkspaceTarget target;
    target.compute_capability = simulate::find_device(gpu).compute_capability;
    for (const nlohmann::json& sizes : cases) {
      CAPTURE(gpu);
      CAPTURE(sizes.dump());
      const Efficient made = efficient(sizes);
      const ir::Program& p = made.program;
      // What is planned is in the allocator's units of 512: up to three tensors of backward.
      const auto above = [&](ir::OpId op, const char* what) {
        return ir::workspace_bytes(p, p.op(op), target) - sizes.at(what).get<std::int64_t>();
      };
      CHECK(above(made.forward, "forward") == 0);
      CHECK(above(made.backward, "backward") >= 0);
      CHECK(above(made.backward, "backward") < 3 * 512);
      CHECK(p.bytes(made.log_sums) == sizes.at("kept").get<std::int64_t>());
    }
  }
}

}  // namespace ac_advisor::test
