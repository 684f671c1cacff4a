// What a step of PyTorch 2.15 holds, launches and attends with otherwise than one of 2.11.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "passes/small_model.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

StepConfig on_gpu(TorchVersion torch, std::int64_t tokens = 256) {
  StepConfig config = small_config();
  config.device.gpu = "h100-80gb";
  config.run.seq = tokens;
  config.runtime.torch = torch;
  return config;
}

const ir::Op& first(const ir::Program& program, ir::OpKind kind) {
  const auto op = std::find_if(program.ops.begin(), program.ops.end(),
                               [&](const ir::Op& o) { return o.kind == kind; });
  REQUIRE(op != program.ops.end());
  return *op;
}

std::int64_t launches(ir::OpKind kind, TorchVersion torch, std::int64_t tokens) {
  const ir::Program p = passes::build_step(small_model(), on_gpu(torch, tokens)).program;
  return ir::launches(p, first(p, kind), false, torch);
}

}  // namespace

TEST_CASE("a product of 2.15 has cuBLAS' workspace while it runs, 2.11 keeps one a thread") {
  const ir::Program p = passes::build_step(small_model(), on_gpu(TorchVersion::v2_15)).program;
  ir::WorkspaceTarget target{.torch = TorchVersion::v2_15, .cublas_workspace = 32 * mib};
  CHECK(ir::workspace_bytes(p, first(p, ir::OpKind::mm), target) == 32 * mib);
  target.torch = TorchVersion::v2_11;
  CHECK(ir::workspace_bytes(p, first(p, ir::OpKind::mm), target) == 0);

  const auto kept = [](TorchVersion torch) {
    return advise::plan(small_model(), on_gpu(torch), false).memory.cublas_workspace;
  };
  CHECK(kept(TorchVersion::v2_11) == 2 * 32 * mib);
  CHECK(kept(TorchVersion::v2_15) == 0);
}

TEST_CASE("an embedding's backward sorts by as many bytes as the vocabulary has") {
  REQUIRE(small_model().vocab == 512);  // two passes in place of eight, each a kernel and a memset
  CHECK(launches(ir::OpKind::embedding_backward, TorchVersion::v2_11, 2048) == 31);
  CHECK(launches(ir::OpKind::embedding_backward, TorchVersion::v2_15, 2048) == 31 - 2 * 6);
  CHECK(launches(ir::OpKind::embedding_backward, TorchVersion::v2_15, 256) == 2);
}

TEST_CASE("attention with dropout leaves cuDNN, and the kernel of fp32 takes shared keys") {
  model::ModelSpec dropping = small_model();
  dropping.attention_dropout = 0.1;
  const auto kernel = [](const model::ModelSpec& model, StepConfig config) {
    const ir::Program p = passes::build_step(model, config).program;
    return ir::attributes<ir::Sdpa>(first(p, ir::OpKind::sdpa)).kernel;
  };
  CHECK(kernel(dropping, on_gpu(TorchVersion::v2_11)) == ir::SdpaKernel::automatic);
  CHECK(kernel(dropping, on_gpu(TorchVersion::v2_15)) == ir::SdpaKernel::flash);

  const model::ModelSpec shared = small_model();
  REQUIRE(shared.heads == 2 * shared.kv_heads);
  StepConfig wide = on_gpu(TorchVersion::v2_15);
  wide.precision.param_dtype = wide.precision.compute_dtype = DType::f32;
  CHECK(kernel(shared, wide) == ir::SdpaKernel::efficient);
}

TEST_CASE("a release that is not planned is refused by those that are") {
  CHECK(resolve_options({{"--torch", "2.15"}}).runtime.torch == TorchVersion::v2_15);
  CHECK(resolve_options({}).runtime.torch == TorchVersion::v2_11);
  std::string why;
  try {
    static_cast<void>(resolve_options({{"--torch", "2.14"}}));
  } catch (const UserError& error) {
    why = error.what();
  }
  CHECK(why.find("--torch 2.14") != why.npos);
  CHECK(why.find("2.11") != why.npos);
  CHECK(why.find("2.15") != why.npos);
}

}  // namespace ac_advisor::test
