#pragma once

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

/// What cuBLAS runs through PyTorch; grouped products are CUTLASS's, LLM.int8()'s are bitsandbytes'
/// own, without a workspace.
[[nodiscard]] bool runs_cublas(const Op& op);
/// A linear layer with a bias, or in fp8, which cuBLASLt runs.
[[nodiscard]] bool runs_cublaslt(const Program& program, const Op& op);
/// A product of a linear layer in a block, where Transformer Engine has these; the LM head and
/// unfused attention are PyTorch's, and so is the router: Megatron-core 0.16 looks for Transformer
/// Engine's get_workspace, which 2.11 has no more (extensions/transformer_engine.py,
/// te_general_gemm).
[[nodiscard]] bool of_engine(const Op& op);

/// Of a product whose workspace is there while it runs (TorchFacts::keeps_cublas_workspaces).
[[nodiscard]] std::int64_t product_workspace(const Program& program, const Op& op,
                                             const WorkspaceTarget& target);

}  // namespace ac_advisor::ir
