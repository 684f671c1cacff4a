// Configurations that several cases start from.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {

void import(model::ModelSpec& m, const StepConfig& c,
            const std::vector<graph::Tensor>& parameters) {
  auto graph = std::make_shared<graph::Graph>();
  graph->batch = c.run.batch;
  graph->seq = c.run.seq;
  graph->tensors = parameters;
  for (graph::Index i = 0; i < static_cast<graph::Index>(parameters.size()); ++i)
    graph->parameters.push_back({.name = "p" + std::to_string(i), .tensor = i});
  m.graph = std::move(graph);
}

void sharded(StepConfig& c, Sharding shard) {
  c.layout.world = 8;
  c.layout.shard = shard;
}

void by(StepConfig& c, AdapterMethod method, std::int64_t size) {
  c.adapters.method = method;
  c.adapters.size = size;
}

void in_a_ring(StepConfig& c) {
  c.layout.world = 4;
  c.layout.cp = 2;
  c.layout.shard = Sharding::fsdp2;
}

void by_ulysses(StepConfig& c) {
  in_a_ring(c);
  c.layout.cp_method = CpMethod::ulysses;
}

void on_host(StepConfig& c) {
  sharded(c, Sharding::fsdp2);
  c.memory.offload = Offload::parameters;
}

void adapted_in_partitions(StepConfig& c, Sharding shard) {
  c.adapters.rank = 8;
  c.adapters.targets = "all-linear";
  c.adapters.dtype = DType::bf16;
  c.layout.shard = shard;
  c.layout.world = 2;
}

void quantized_shards(StepConfig& c, Quantization how) {
  sharded(c, Sharding::fsdp2);
  c.adapters.rank = 8;
  c.adapters.targets = "all-linear";
  c.adapters.quantize = how;
}

void with_delta_nets(model::ModelSpec& m) {
  m.delta = model::DeltaNet{2, 4, 16, 32, 4};
  m.delta_block.assign(4, true);
}

void whole_model(StepConfig& c) {
  c.memory.kernels = Kernels::compiled;
  c.memory.compile_unit = CompileUnit::model;
  c.run.attention = Attention::cudnn;
}

void in_stages(model::ModelSpec& m, StepConfig& c) {
  m.tied_embeddings = false;
  c.layout.pp = c.layout.world = 2;
  c.run.grad_accum = 4;
  c.memory.hold_output = false;
}

void in_parts(model::ModelSpec& m, StepConfig& c) {
  in_stages(m, c);
  c.layout.pp_schedule = PipelineSchedule::zero_bubble;
}

void with_ends_apart(model::ModelSpec& m, StepConfig& c) {
  m.tied_embeddings = false;
  c.layout.world = 2;
  c.layout.shard = Sharding::fsdp2;
  c.layout.fsdp_unit = FsdpUnit::torchtitan;
}

void by_litgpt(model::ModelSpec& m, StepConfig& c) {
  m.family = "llama";
  m.mlp_bias = m.output_bias = m.qk_norm = false;
  c.run.transformer_impl = TransformerImpl::litgpt;
  c.memory.wide_output = true;
  c.optimizer.kind = Optimizer::adamw_foreach;
}

void in_four_bits(model::ModelSpec& m, StepConfig& c) {
  by_litgpt(m, c);
  c.adapters.rank = 8;
  c.adapters.targets = "query,value";
  c.adapters.dtype = DType::bf16;
  c.adapters.quantize = Quantization::nf4;
}

void by_megatron(model::ModelSpec& m, StepConfig& c) {
  m.mlp_bias = false;
  c.run.transformer_impl = TransformerImpl::transformer_engine;
  c.memory.kernels = Kernels::fused;
  c.memory.hold_output = false;
}

void with_experts(model::ModelSpec& m, StepConfig& c) {
  by_megatron(m, c);
  with_mixture(m, 4);
  m.moe->megatron.emplace();
}

void over_experts(StepConfig& c, std::int64_t ep, std::int64_t world) {
  c.layout.ep = ep;
  c.layout.world = world;
  c.layout.shard = Sharding::ddp;
  c.precision.reduce_dtype = DType::f32;
}

void sharing_experts(model::ModelSpec& m, StepConfig& c) {
  sharded(c, Sharding::fsdp2);
  m.family = "mixtral";
  with_mixture(m, 4);
  c.layout.ep = 4;
}

void with_image(model::ModelSpec& m, StepConfig& c) {
  m.tower.emplace();
  m.tower->encoder = "clip_vision_model";
  m.tower->run = model::TowerRun{.hidden = 32,
                                 .intermediate = 64,
                                 .layers = 2,
                                 .heads = 2,
                                 .image = 8,
                                 .patch = 4,
                                 .layers_read = 1};
  c.run.images = 1;
}

void with_image_of_any_size(model::ModelSpec& m, StepConfig& c) {
  with_image(m, c);
  m.tower->encoder = "qwen2_5_vl_vision";
  m.tower->run->form = model::TowerForm::qwen2_5;
  m.tower->run->patch = 8;
  m.tower->run->frames = m.tower->run->merge = 2;
  m.tower->run->out = m.hidden;
  m.tower->run->window = 32;
  m.position_grids = model::PositionGrids::joined;
  c.run.image_height = c.run.image_width = 16;
}

}  // namespace ac_advisor::test
