#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/adapter_method.hpp"
#include "passes/small_model.hpp"

/// A refused configuration for each row of docs/exclusions.md, by its group.
namespace ac_advisor::test {

/// From a small model and configuration that are accepted.
struct Case {
  const char* options;  ///< what the row names
  std::function<void(model::ModelSpec&, StepConfig&)> change;
  const char* says;  ///< part of the message
};

std::span<const Case> declare_cases();
std::span<const Case> graph_cases();
std::span<const Case> lower_cases();
std::span<const Case> sharding_cases();
std::span<const Case> offload_cases();
std::span<const Case> pipeline_cases();
std::span<const Case> tensor_parallel_cases();
std::span<const Case> megatron_cases();
std::span<const Case> optimizer_cases();
std::span<const Case> adapter_method_cases();
std::span<const Case> adapters_cases();
std::span<const Case> packing_cases();
std::span<const Case> task_cases();
std::span<const Case> context_cases();
std::span<const Case> experts_cases();
std::span<const Case> float8_cases();
std::span<const Case> compiled_cases();
std::span<const Case> litgpt_cases();
std::span<const Case> layer_cases();
std::span<const Case> torch_cases();
std::span<const Case> trainer_cases();

/// A graph without ops that was captured in the configuration's sizes, in bf16.
void import(model::ModelSpec& m, const StepConfig& c,
            const std::vector<graph::Tensor>& parameters = {});
void sharded(StepConfig& c, Sharding shard);
void by(StepConfig& c, AdapterMethod method, std::int64_t size = 0);
void in_a_ring(StepConfig& c);
void by_ulysses(StepConfig& c);
void on_host(StepConfig& c);
/// LoRA beside ZeRO's partitions.
void adapted_in_partitions(StepConfig& c, Sharding shard);
void quantized_shards(StepConfig& c, Quantization how);
void with_delta_nets(model::ModelSpec& m);
void whole_model(StepConfig& c);
/// Two stages, four micro-batches.
void in_stages(model::ModelSpec& m, StepConfig& c);
void in_parts(model::ModelSpec& m, StepConfig& c);
/// FSDP2 over two ranks, the embedding and the head as units of their own.
void with_ends_apart(model::ModelSpec& m, StepConfig& c);
/// litgpt's step, of a family that it was compared with.
void by_litgpt(model::ModelSpec& m, StepConfig& c);
void in_four_bits(model::ModelSpec& m, StepConfig& c);
/// Megatron-core's step of Transformer Engine's layers.
void by_megatron(model::ModelSpec& m, StepConfig& c);
/// … with four experts in each block, of which a token has two.
void with_experts(model::ModelSpec& m, StepConfig& c);
void over_experts(StepConfig& c, std::int64_t ep, std::int64_t world);
/// A mixture of four experts, of transformers' layers, that four ranks share.
void sharing_experts(model::ModelSpec& m, StepConfig& c);
/// A step with an image a sequence, of an encoder that is planned with them.
void with_image(model::ModelSpec& m, StepConfig& c);
/// An image of one merged patch of 16 x 16 pixels, of Qwen2.5-VL's encoder.
void with_image_of_any_size(model::ModelSpec& m, StepConfig& c);

}  // namespace ac_advisor::test
