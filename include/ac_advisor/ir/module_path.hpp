#pragma once

#include <cstdint>
#include <string>

namespace ac_advisor::ir {

/// What a step of the program belongs to, inside a block or outside of all of them.
enum class Module : std::uint8_t {
  root,
  embed,
  rotary,
  block,
  norm1,
  attention,
  q_proj,
  k_proj,
  v_proj,
  qkv_proj,
  q_a_proj,
  q_b_proj,
  kv_a_proj,
  kv_b_proj,
  q_norm,
  k_norm,
  q_a_norm,
  kv_a_norm,
  rope,
  attention_core,
  ba_proj,
  conv1d,
  delta_rule,
  gated_norm,
  o_proj,
  post_attention_norm,
  norm2,
  mlp,
  gate_proj,
  up_proj,
  gate_up_proj,
  activation,
  down_proj,
  router,
  experts,
  post_mlp_norm,
  final_norm,
  lm_head,
  loss,
  optimizer,
  fsdp,
  vision_tower,
  z_proj,  ///< of a delta net whose gates, rates of writing
  b_proj,  ///< and of decay
  a_proj,  ///< are projections of their own
};

/// Under tensor parallelism a linear layer is split by its inputs (RowwiseParallel: ranks add up
/// their products) or by its outputs (ColwiseParallel).
[[nodiscard]] constexpr bool split_by_inputs(Module leaf) {
  return leaf == Module::o_proj || leaf == Module::down_proj;
}

/// Whose module it is: the model's that is trained, the same in a forward of its own under
/// torch.no_grad, or a reference model's.
enum class Owner : std::uint8_t { policy, reference, no_grad };

/// A module's path, `blocks.3.mlp.down_proj`; also the name of its NVTX range.
struct ModulePath {
  std::int16_t block = -1;  ///< -1: outside of every block
  Module leaf = Module::root;
  Owner owner = Owner::policy;
  bool operator==(const ModulePath&) const = default;
};

[[nodiscard]] std::string to_string(ModulePath path);
/// The sub-module that the ops of `leaf` run in: norm1, attention, norm2, mlp (the regions of
/// `--ac-scope submodule`), or `block` for what the block does itself (the residual additions).
[[nodiscard]] Module submodule_of(Module leaf);

}  // namespace ac_advisor::ir
