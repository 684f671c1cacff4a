#include "library_products.hpp"

#include "ac_advisor/ir/torch_facts.hpp"

namespace ac_advisor::ir {
namespace {

using enum OpKind;

/// CUDABlas.cpp: getCUDABlasLtWorkspaceSize, where CUBLASLT_WORKSPACE_SIZE is not set.
constexpr std::int64_t cublaslt_workspace = std::int64_t{1} << 20;

/// Out of place, to what is no bias.
bool adds_to_matrix(const Program& p, const Op& op) {
  return op.kind == addmm && p.value(p.input(op, 0)).shape.rank() > 1 &&
         p.storage_of(p.input(op, 0)) != p.storage_of(p.output(op, 0));
}

}  // namespace

bool runs_cublas(const Op& op) {
  if (op.kind == mm_quantized) return attributes<QuantizedProduct>(op).inner > 0;
  return op.kind == mm || op.kind == addmm || op.kind == bmm || op.kind == baddbmm ||
         op.kind == scaled_mm || op.kind == fp8_product;
}

bool runs_cublaslt(const Program& program, const Op& op) {
  const bool has_bias = op.kind == addmm && program.value(program.input(op, 0)).shape.rank() == 1;
  return has_bias || op.kind == scaled_mm || op.kind == fp8_product;
}

bool of_engine(const Op& op) {
  return (op.kind == mm || op.kind == addmm || op.kind == fp8_product) && op.module.block >= 0 &&
         op.module.leaf != Module::router;
}

std::int64_t product_workspace(const Program& program, const Op& op,
                               const WorkspaceTarget& target) {
  const TorchFacts& torch = facts_of(target.torch);
  if (target.cublas_workspace == 0 || torch.keeps_cublas_workspaces) return 0;
  if (target.engine && of_engine(op)) return 0;
  const bool lt = runs_cublaslt(program, op) ||
                  (torch.adds_to_matrix_in_cublaslt && adds_to_matrix(program, op));
  if (lt) return cublaslt_workspace;
  return runs_cublas(op) ? target.cublas_workspace : 0;
}

}  // namespace ac_advisor::ir
