#pragma once

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::test {

/// A profile whose every field differs from its default and from its neighbours. The categories
/// are 1, 2, …, 13 GiB: the peak is 91 GiB.
inline profile::Profile full_profile() {
  using profile::Category;
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  profile::Profile p;
  p.tool_version = "1.2.3";
  p.device_name = "NVIDIA H100";
  p.parameters = 1235814400;
  p.model.name = "some-model";
  p.model.family = "gemma2";
  model::set_family_facts(p.model);
  p.model.hidden = 64;
  p.model.intermediate = 160;
  p.model.layers = 2;
  p.model.heads = 4;
  p.model.kv_heads = 2;
  p.model.head_dim = 16;
  p.model.vocab = 512;
  p.model.rms_norm_eps = 1e-5;
  p.model.attention_softcap = 50.0;
  p.model.activation = model::Activation::gelu_tanh;
  p.model.window = {0, 512};
  p.model.moe = model::MoeSpec{8, 2, 96, true};
  p.model.sparse_block = {true, false};
  p.config.run.batch = 3;
  p.config.run.seq = 1000;
  p.config.layout.world = 4;
  p.config.layout.shard = Sharding::hsdp;
  p.config.layout.hsdp_shards = 2;
  p.config.memory.ac = AcMode::grouped;
  p.config.memory.ac_arg = 2;
  p.config.memory.loss = LossKind::chunked;
  p.config.memory.chunk_tokens = 1024;
  p.config.run.dropout = 0.1;
  p.config.run.attention = Attention::math;
  p.config.precision.param_dtype = DType::f32;
  p.config.memory.block_modes = {AcMode::full, AcMode::none};
  for (std::size_t i = 0; i < profile::category_count; ++i) {
    p.memory.at_peak[i] = static_cast<std::int64_t>(i + 1) * gib;
    p.memory.peak_allocated += p.memory.at_peak[i];
  }
  // Not a double: 2^53 + 1 is the first integer that a double cannot hold.
  p.memory.peak_reserved = (std::int64_t{1} << 53) + 1;
  p.memory.peak_excluding_workspace = p.memory.peak_allocated - 13 * gib;
  p.memory.first_step_peak = 80 * gib;
  p.memory.resident = 7 * gib;
  p.memory.reference_forward_peak = 9 * gib;
  p.memory.peak_phase = "backward";
  p.memory.peak_step = 849;
  p.memory.peak_op = "_log_softmax_backward_data";
  p.memory.peak_module = "loss";
  p.memory.at_peak_by_module = {{"blocks.0", 90 * gib}, {"lm_head", gib}};
  p.memory.largest = {
      {"blocks.0.mlp.down_proj", "mm", "[3, 1000, 64]", "bf16", Category::recomputed, 384000}};
  p.memory.timeline = {{0, 0, gib}, {849, 2, 119 * gib}, {900, 4, 7 * gib}};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto n = static_cast<std::int64_t>(i);
    p.memory.peak_by_phase[i] = (87 + n) * gib;
    p.memory.peak_by_phase_excluding_workspace[i] = (74 + n) * gib;
    p.kernels.launches[i] = 100 + n;
    p.kernels.dispatches[i] = 200 + n;
    p.kernels.flops[i] = 1e15 / (3.0 + static_cast<double>(i));
    p.kernels.bytes[i] = 1e12 / (7.0 + static_cast<double>(i));
    p.time.by_phase[i] = 0.1 / (1.0 + static_cast<double>(i));
  }
  p.time.step = 1.0 / 3.0;
  p.time.launch_bound = 0.01;
  p.time.communication_exposed = 0.02;
  p.time.recompute = 0.03;
  p.time.tokens_per_second = 36000.5;
  p.time.mfu = 0.45;
  p.fit = {true, 100 * gib, 140 * gib, gib, 2 * gib, 3 * gib};
  p.budget =
      profile::BudgetResult{92 * gib, 80 * gib, "0-1 program", "search", 0.03, 0.02, 0.33, "all"};
  p.evidence = evidence::Evidence{
      evidence::Grade::composed, 3, {"--lora × --packing × --shard fsdp2"}, {27, 96, 3}, 1.5};
  p.assumptions = {"routing is balanced"};
  p.warnings = {"a fallback"};
  return p;
}

}  // namespace ac_advisor::test
