// The passes in the order in which they run. A new pass is a file and a line in each of the first
// two lists, and in the third where a forward alone has nothing of it; what it refuses comes with
// it.
#include <algorithm>
#include <array>

#include "ac_advisor/passes/pass.hpp"

namespace ac_advisor::passes {

extern const Pass graph_declare_pass, graph_replay_pass;
extern const Pass pipeline_buffers_pass, pipeline_inputs_pass, pipeline_pass;
extern const Pass declare_pass, tower_pass, fsdp1_shards_pass, fsdp2_shards_pass, ddp_buckets_pass,
    zero_partition_pass, zero3_parts_pass;
extern const Pass megatron_declare_pass, megatron_buffers_pass, megatron_lower_pass,
    megatron_gradients_pass, megatron_optimizer_pass;
extern const Pass lower_pass, regions_pass, fuse_pass, compile_pass, differentiate_pass,
    recompute_pass, offload_pass;
extern const Pass fsdp1_pass, fsdp2_pass, ddp_pass, zero_pass, zero3_pass;
extern const Pass optimizer_in_backward_pass, gradients_to_host_pass;
extern const Pass residents_pass, tp_clip_pass, tensor_parallel_pass, clip_grad_pass,
    fsdp1_clip_pass, clip_by_layout_pass, optimizer_pass, ema_pass, zero_gather_pass,
    zero3_step_pass, float8_scales_pass, survivors_pass;
extern const Pass master_weights_pass, optimizer_offload_pass;
extern const Pass grad_scaler_pass, unscale_pass, update_scale_pass;

namespace {

constexpr std::array table{
    // before
    &declare_pass,
    &megatron_declare_pass,
    &grad_scaler_pass,
    &pipeline_buffers_pass,
    &tower_pass,
    &graph_declare_pass,
    &fsdp1_shards_pass,
    &fsdp2_shards_pass,
    &ddp_buckets_pass,
    &zero_partition_pass,
    &zero3_parts_pass,
    &megatron_buffers_pass,
    // each micro-batch
    &pipeline_inputs_pass,
    &lower_pass,
    &megatron_lower_pass,
    &graph_replay_pass,
    &regions_pass,
    &fuse_pass,
    &compile_pass,
    &differentiate_pass,
    &recompute_pass,
    &offload_pass,
    &fsdp1_pass,
    &fsdp2_pass,
    &ddp_pass,
    &zero_pass,
    &zero3_pass,
    &megatron_gradients_pass,
    &optimizer_in_backward_pass,
    &gradients_to_host_pass,
    // the step
    &pipeline_pass,
    &residents_pass,
    &tp_clip_pass,
    &tensor_parallel_pass,
    &unscale_pass,
    &clip_grad_pass,
    &fsdp1_clip_pass,
    &clip_by_layout_pass,
    &optimizer_pass,
    &master_weights_pass,
    &optimizer_offload_pass,
    &update_scale_pass,
    &megatron_optimizer_pass,
    &ema_pass,
    &float8_scales_pass,
    &zero_gather_pass,
    &zero3_step_pass,
    &survivors_pass,
};

/// In no order.
constexpr std::array of_training{
    &differentiate_pass,
    &recompute_pass,
    &offload_pass,
    &ddp_pass,
    &zero_pass,
    &optimizer_in_backward_pass,
    &unscale_pass,
    &gradients_to_host_pass,
    &tensor_parallel_pass,
    &tp_clip_pass,
    &clip_grad_pass,
    &fsdp1_clip_pass,
    &clip_by_layout_pass,
    &optimizer_pass,
    &master_weights_pass,
    &optimizer_offload_pass,
    &update_scale_pass,
    &ema_pass,
    &float8_scales_pass,
    &zero_gather_pass,
    &zero3_step_pass,
};

}  // namespace

std::span<const Pass* const> passes() { return table; }

bool follows_forward(const Pass& pass) {
  return std::find(of_training.begin(), of_training.end(), &pass) != of_training.end();
}

}  // namespace ac_advisor::passes
