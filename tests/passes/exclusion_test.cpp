#include "ac_advisor/passes/exclusion.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/error.hpp"
#include "small_model.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

std::string page_file() { return std::string(source_dir) + "/docs/exclusions.md"; }

std::string refused(const model::ModelSpec& spec, const StepConfig& config) {
  try {
    passes::validate(spec, config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

/// A configuration for each row, by what the row names.
struct Case {
  const char* options;
  std::function<void(model::ModelSpec&, StepConfig&)> change;
  const char* says;
};

/// A graph without ops that was captured in the configuration's sizes, in bf16.
void import(model::ModelSpec& m, const StepConfig& c,
            const std::vector<graph::Tensor>& parameters = {}) {
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

void by(StepConfig& c, AdapterMethod method, std::int64_t size = 0) {
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

/// LoRA beside ZeRO's partitions.
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

/// Two stages, four micro-batches.
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

/// FSDP2 over two ranks, the embedding and the head as units of their own.
void with_ends_apart(model::ModelSpec& m, StepConfig& c) {
  m.tied_embeddings = false;
  c.layout.world = 2;
  c.layout.shard = Sharding::fsdp2;
  c.layout.fsdp_unit = FsdpUnit::torchtitan;
}

/// litgpt's step, of a family that it was compared with.
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

/// Megatron-core's step of Transformer Engine's layers.
void by_megatron(model::ModelSpec& m, StepConfig& c) {
  m.mlp_bias = false;
  c.run.transformer_impl = TransformerImpl::transformer_engine;
  c.memory.kernels = Kernels::fused;
  c.memory.hold_output = false;
}

/// … with four experts in each block, of which a token has two.
void with_experts(model::ModelSpec& m, StepConfig& c) {
  by_megatron(m, c);
  m.moe = model::MoeSpec{.experts = 4, .top_k = 2, .intermediate = 64};
  m.moe->megatron.emplace();
  m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
}
void over_experts(StepConfig& c, std::int64_t ep, std::int64_t world) {
  c.layout.ep = ep;
  c.layout.world = world;
  c.layout.shard = Sharding::ddp;
  c.precision.reduce_dtype = DType::f32;
}

/// A mixture of four experts, of transformers' layers, that four ranks share.
void sharing_experts(model::ModelSpec& m, StepConfig& c) {
  sharded(c, Sharding::fsdp2);
  m.family = "mixtral";
  m.moe = model::MoeSpec{.experts = 4, .top_k = 2, .intermediate = 64};
  m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
  c.layout.ep = 4;
}

/// A step with an image a sequence, of an encoder that is planned with them.
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

const Case cases[] = {
    {"MODEL by Megatron's arguments, --transformer-impl hf",
     [](model::ModelSpec& m, auto&) { m.family = "megatron"; }, "--transformer-impl hf"},
    {"--framework litgpt, a family other than gemma, gpt_neox, llama, mistral, phi and qwen2, or a "
     "model with windows or biases that theirs have not",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       m.family = "olmo2";
     },
     "--framework litgpt for olmo2"},
    {"--framework litgpt --world N, --pp, --tp or --cp",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       sharded(c, Sharding::fsdp2);
     },
     "units of FSDP of its own"},
    {"--framework litgpt --ac other than none",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.memory.ac = AcMode::full;
     },
     "--framework litgpt --ac full"},
    {"--framework litgpt, a loss other than ce, --no-hold-output or --output-dtype bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--framework litgpt --loss lc-ce"},
    {"--framework litgpt --attn other than auto, flash and cudnn",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.run.attention = Attention::eager;
     },
     "--framework litgpt --attn eager"},
    {"--framework litgpt, parameters or a computation in other than bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "bf16-true"},
    {"--framework litgpt, what its finetuning scripts have not: other adapters than LoRA, DoRA, "
     "int8, a packed row, position_ids, images, offloading, clipping, compiled or fused kernels",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.optimizer.clip_grad = 1.0;
     },
     "none of it is there"},
    {"--framework litgpt --quantize, an optimizer other than paged-adamw",
     [](model::ModelSpec& m, StepConfig& c) {
       in_four_bits(m, c);
       c.optimizer.kind = Optimizer::adamw;
     },
     "--framework litgpt --quantize nf4 --optimizer adamw"},
    {"--framework litgpt --lora, a --seq of 1 or of one token more than chunks of 128",
     [](model::ModelSpec& m, StepConfig& c) {
       in_four_bits(m, c);
       c.optimizer.kind = Optimizer::paged_adamw;
       c.run.seq = 129;
     },
     "--framework litgpt --seq 129"},
    {"--framework litgpt, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       by_litgpt(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "transformers' layers alone"},
    {"--transformer-impl, a model that is no GPT of its",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.moe.emplace();
     },
     "latent attention and the rest not yet"},
    {"--transformer-impl, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.window.assign(static_cast<std::size_t>(m.layers), 2);
     },
     "its masks"},
    {"--transformer-impl --seq N, a model with a table of positions",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.position_table = m.max_positions = 2;
     },
     "no more rows"},
    {"--transformer-impl --batch B --seq S",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.batch = c.run.seq = 1 << 16;
     },
     "more than 2^31 tokens"},
    {"--transformer-impl, a model of more than 4096 blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       m.layers = 5000;
     },
     "at most 4096"},
    {"--transformer-impl, --ac other than none, full, grouped:K or attention, or --ac-scope submodule",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.ac = AcMode::selective;
     },
     "--ac selective"},
    {"--transformer-impl, a loss other than ce or ce-compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--loss lc-ce"},
    {"--transformer-impl, --kernels other than fused",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.kernels = Kernels::eager;
     },
     "--kernels eager"},
    {"--transformer-impl, --shard other than none, ddp or zero1",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       sharded(c, Sharding::fsdp2);
     },
     "--shard fsdp2"},
    {"--transformer-impl --reduce-dtype bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       sharded(c, Sharding::ddp);
     },
     "planned in fp32"},
    {"--transformer-impl, an optimizer other than adamw or adamw-foreach",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.kind = Optimizer::lion;
     },
     "--optimizer lion"},
    {"--transformer-impl local, --attn other than auto or eager",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       c.run.attention = Attention::flash;
     },
     "--transformer-impl local --attn flash"},
    {"--transformer-impl transformer_engine, --attn efficient, math or flash1",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.attention = Attention::math;
     },
     "--attn math"},
    {"--transformer-impl --no-grad-scaler in fp16, --grad-scaler in bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.grad_scaler = true;
     },
     "scales the loss of --fp16"},
    {"--transformer-impl, --param-dtype or --compute-dtype fp32, --autocast",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "use --param-dtype bf16"},
    {"--transformer-impl --hold-output or --output-dtype fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.hold_output = true;
     },
     "computed inside the model"},
    {"--transformer-impl --packing DOCS",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.packing = 2;
     },
     "PackedSeqParams"},
    {"--transformer-impl --position-ids",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.position_ids = true;
     },
     "carry positions in any case"},
    {"--transformer-impl --images N",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.images = 1;
     },
     "models with images"},
    {"--transformer-impl --lora or --quantize",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.adapters.rank = 4;
     },
     "adapters are not planned"},
    {"--transformer-impl --ema, --optimizer-in-backward or --no-sync",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.ema = true;
     },
     "leave them out"},
    {"--transformer-impl --grad-compression",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.compression.kind = Compression::bf16;
     },
     "has no hooks"},
    {"--transformer-impl --cuda-graph",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--cuda-graph off"},
    {"--transformer-impl --offload",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.memory.offload = Offload::activations;
     },
     "cpu_offloading"},
    {"--transformer-impl, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the trainer has transformers' layers"},
    {"--transformer-impl --tp T --pp N --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.tp = 2;
       c.layout.world = 3;
     },
     "--tp 2"},
    {"--transformer-impl --tp T, heads or MLP that T does not divide",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.tp = c.layout.world = 7;
     },
     "--tp 7"},
    {"--transformer-impl --tp T --seq S, S no multiple of T",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.tp = c.layout.world = 2;
       c.run.seq = 15;
     },
     "--seq 15"},
    {"--transformer-impl --cp N --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.cp = 2;
       c.layout.world = 3;
     },
     "--cp 2"},
    {"--transformer-impl --cp N, --attn other than flash, or local layers",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.cp = c.layout.world = 2;
       c.layout.shard = Sharding::ddp;
       c.precision.reduce_dtype = DType::f32;
     },
     "--attn flash"},
    {"--transformer-impl --cp N --seq S, S no multiple of 2 N",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::transformer_engine;
       c.run.attention = Attention::flash;
       c.layout.cp = c.layout.world = 2;
       c.layout.shard = Sharding::ddp;
       c.precision.reduce_dtype = DType::f32;
       c.run.seq = 18;
     },
     "--cp 2 --seq 18"},
    {"--transformer-impl --optimizer-instances N that does not divide the ranks",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.world = 4;
       c.layout.shard = Sharding::zero1;
       c.precision.reduce_dtype = DType::f32;
       c.layout.optimizer_instances = 3;
     },
     "--optimizer-instances 3 --world 4"},
    {"--ep N or --etp T, a model without experts",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       over_experts(c, 2, 2);
     },
     "--ep 2: there is nothing to share"},
    {"--ep N --etp T --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 2, 3);
     },
     "--ep 2 --world 3"},
    {"--ep N that does not divide the experts, or leaves a rank more than 30",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 3, 3);
     },
     "--ep 3"},
    {"--etp T or --tp T that does not divide the experts' or the shared expert's width",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 1, 3);
       c.layout.etp = 3;
     },
     "--etp 3"},
    {"--transformer-impl --tp T --no-sp, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.layout.tp = c.layout.world = 2;
       c.layout.sequence_parallel = false;
     },
     "--tp 2 --no-sp"},
    {"--transformer-impl local, moe_grouped_gemm",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       m.moe->megatron->grouped = true;
     },
     "CUTLASS"},
    {"--transformer-impl, a mixture of experts in fp16",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f16;
       c.optimizer.grad_scaler = true;
     },
     "--param-dtype fp16"},
    {"--transformer-impl --capacity-factor F",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.run.capacity_factor = 2.0;
     },
     "--capacity-factor"},
    {"--transformer-impl --batch B --seq S, tokens that do not spread evenly over the experts",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.run.batch = 1;
       c.run.seq = 15;
     },
     "--seq 15"},
    {"--optimizer-instances N that does not divide the ranks of an expert",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       over_experts(c, 4, 4);
       c.layout.shard = Sharding::zero1;
       c.layout.optimizer_instances = 2;
     },
     "--ep 4 --optimizer-instances 2"},
    {"--deterministic, a model without experts",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.runtime.deterministic = true;
     },
     "--deterministic"},
    {"--transformer-impl --no-loss-parallel",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.layout.loss_parallel = false;
     },
     "parts of the vocabulary"},
    {"--transformer-impl --pp N, blocks that do not go round",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {m.layers, 1};
     },
     "--pp 2"},
    {"--transformer-impl --pp N --pp-schedule gpipe, zb1, zbv or dualpipev",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {1, m.layers - 1};
       c.layout.pp_schedule = PipelineSchedule::gpipe;
     },
     "--pp-schedule gpipe"},
    {"--transformer-impl --pp N --grad-accum M, too few or uneven",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {1, m.layers - 1};
       c.run.grad_accum = 1;
     },
     "--grad-accum 1"},
    {"--transformer-impl --pp-rank R, R of N or more",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       in_stages(m, c);
       c.layout.pp_layers = {1, m.layers - 1};
       c.layout.pp_rank = 2;
     },
     "0 to N - 1"},
    {"--offload parameters, --shard other than fsdp2, hsdp:N or zero3",
     [](auto&, StepConfig& c) {
       on_host(c);
       sharded(c, Sharding::ddp);
     },
     "CPUOffloadPolicy"},
    {"--offload parameters, ac-trainer",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--offload parameters"},
    {"--offload parameters --gpu cpu",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.device.gpu = "cpu";
     },
     "choose a GPU"},
    {"--offload parameters --tp T or --pp N",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.layout.tp = 2;
     },
     "leave one of them out"},
    {"--offload parameters, an optimizer other than adamw, adamw-foreach, sgd and sgd-momentum",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.optimizer.kind = Optimizer::adamw_8bit_torchao;
     },
     "--offload parameters --optimizer adamw-8bit-torchao"},
    {"--offload parameters --ema or --grad-scaler",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.optimizer.ema = true;
     },
     "leave one of them out"},
    {"--offload parameters --fp8",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "leave one of them out"},
    {"--offload parameters --grad-accum N --no-sync",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.run.grad_accum = 2;
       c.layout.no_sync = true;
     },
     "leave --no-sync out"},
    {"--offload parameters --cuda-graph",
     [](auto&, StepConfig& c) {
       on_host(c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "copies from and to the host"},
    {"--offload of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.offload = Offload::activations;
     },
     "what its nodes save"},
    {"--transformer-impl local --fp8",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.run.transformer_impl = TransformerImpl::local;
       c.precision.fp8 = Fp8Recipe::delayed;
     },
     "own layers have no FP8"},
    {"--transformer-impl --fp8 rowwise or mx, or --fp8-all-gather",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::rowwise;
     },
     "--fp8 rowwise"},
    {"--transformer-impl --fp8 --tp, --pp or --cp",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
       c.layout.world = c.layout.tp = 2;
     },
     "--fp8 delayed --tp 2: layers in FP8 that ranks share"},
    {"--transformer-impl --fp8 --ac",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
       c.memory.ac = AcMode::full;
     },
     "--fp8 delayed --ac full: recomputed layers in FP8"},
    {"--transformer-impl --fp8 of experts, or not in bf16",
     [](model::ModelSpec& m, StepConfig& c) {
       with_experts(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
     },
     "--fp8 delayed of a model with experts: neither was compared"},
    {"--transformer-impl --fp8, sizes no multiples of 16, or tokens no multiple of 8",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.precision.fp8 = Fp8Recipe::delayed;
       m.intermediate = 168;
     },
     "intermediate_size 168"},
    {"--fp8 of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "before it is captured"},
    {"--fp8 delayed",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::delayed;
     },
     "no delayed scaling"},
    {"--fp8 mx --autocast, or --param-dtype fp32 or fp16 without fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.precision.param_dtype = DType::f32;
       c.precision.autocast = true;
     },
     "without autocast"},
    {"--fp8 mx --kernels compiled",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.memory.kernels = Kernels::compiled;
     },
     "compiled MX layers"},
    {"--fp8 mx, batch x seq no multiple of 32",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.run.batch = 1;
       c.run.seq = 48;
     },
     "--fp8 mx --batch 1 --seq 48"},
    {"--fp8-all-gather without --fp8 tensorwise --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
     },
     "FSDP2's"},
    {"--fp8-all-gather --optimizer other than adamw or adamw-foreach",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       sharded(c, Sharding::fsdp2);
       c.optimizer.kind = Optimizer::sgd;
     },
     "other optimizers"},
    {"--fp8-all-gather --ema",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       sharded(c, Sharding::fsdp2);
       c.optimizer.ema = true;
     },
     "an average"},
    {"--fp8-all-gather, several pipeline stages a rank",
     [](model::ModelSpec& m, StepConfig& c) {
       m = untied_model(8);
       c.memory.hold_output = false;
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       c.layout.shard = Sharding::fsdp2;
       c.layout.pp = 2;
       c.layout.world = 4;
       c.layout.pp_schedule = PipelineSchedule::interleaved;
       c.layout.pp_chunks = 2;
       c.run.grad_accum = 2;
     },
     "scales would be reduced"},
    {"--fp8 RECIPE, batch x seq no multiple of 16",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.run.batch = 1;
       c.run.seq = 40;
     },
     "--batch 1 --seq 40"},
    {"--fp8 RECIPE --compute-dtype fp32 or fp16",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "bf16 alone"},
    {"--fp8 RECIPE --lora",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
     },
     "adapters beside"},
    {"--fp8 RECIPE --compile-unit model",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
       c.memory.compile_unit = CompileUnit::model;
     },
     "graph of the whole model"},
    {"--fp8 RECIPE --kernels compiled --autocast or --shard ddp",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
       c.layout.shard = Sharding::ddp;
       c.layout.world = 8;
     },
     "without either"},
    {"--fp8-all-gather --kernels compiled --tp",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.precision.fp8_all_gather = true;
       c.memory.kernels = Kernels::compiled;
       c.layout.shard = Sharding::fsdp2;
       c.layout.tp = 2;
       c.layout.world = 4;
     },
     "of ranks that share layers"},
    {"--fp8 RECIPE --kernels compiled of another family",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "stablelm";
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::compiled;
     },
     "compiled layers"},
    {"--fp8 RECIPE --kernels fused",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.kernels = Kernels::fused;
     },
     "fused kernels"},
    {"--fp8 mx --tp",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::mx;
       c.layout.tp = c.layout.world = 2;
     },
     "MX layers whose ranks have parts"},
    {"--fp8 RECIPE --tp T, parts of layers that are no multiples of 16",
     [](model::ModelSpec& m, StepConfig& c) {
       m.intermediate = 2 * 24;
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.layout.tp = c.layout.world = 2;
     },
     "needs a multiple of 16"},
    {"--fp8 mx --pp",
     [](model::ModelSpec& m, StepConfig& c) {
       m.tied_embeddings = false;
       c.memory.hold_output = false;
       c.precision.fp8 = Fp8Recipe::mx;
       c.layout.pp = c.layout.world = 2;
       c.run.grad_accum = 2;
     },
     "stages of MX"},
    {"--fp8 RECIPE --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       sharded(c, Sharding::zero1);
     },
     "--shard zero1"},
    {"--fp8 RECIPE --ac attention or budget:SIZE",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.ac = AcMode::attention;
     },
     "--ac attention"},
    {"--fp8 RECIPE --ac-scope submodule",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.ac = AcMode::full;
       c.memory.scope = AcScope::submodule;
     },
     "within blocks"},
    {"--fp8 RECIPE --offload",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.memory.offload = Offload::activations;
     },
     "such layers save"},
    {"--fp8 RECIPE --packing DOCS",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.run.packing = 4;
     },
     "packed rows"},
    {"--fp8 RECIPE --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.optimizer.in_backward = true;
     },
     "order of its frees"},
    {"--fp8 RECIPE --cuda-graph",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "captures"},
    {"--fp8 RECIPE, ac-trainer",
     [](auto&, StepConfig& c) {
       c.precision.fp8 = Fp8Recipe::tensorwise;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--fp8 RECIPE, experts, an encoder of images, or another family",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "gptj";
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "of gptj"},
    {"--master-weights --param-dtype fp32",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "need no copies"},
    {"--master-weights --param-dtype fp16",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
     },
     "the scaler"},
    {"--master-weights, an optimizer other than adamw",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.optimizer.kind = Optimizer::sgd;
     },
     "--master-weights --optimizer sgd"},
    {"--master-weights --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       sharded(c, Sharding::zero1);
     },
     "masters in any case"},
    {"--master-weights --tp T or --pp N",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.layout.tp = c.layout.world = 2;
     },
     "were not compared with it"},
    {"--master-weights --lora",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
     },
     "adapters"},
    {"--master-weights --offload parameters, optimizer or gradients",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       on_host(c);
     },
     "on the device"},
    {"--master-weights --grad-scaler",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.optimizer.grad_scaler = true;
     },
     "the scaler"},
    {"--master-weights --fp8",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.precision.fp8 = Fp8Recipe::tensorwise;
     },
     "beside it"},
    {"--master-weights --cuda-graph",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "step counter"},
    {"--master-weights --gpu cpu",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.device.gpu = "cpu";
     },
     "GPUs alone"},
    {"--master-weights, ac-trainer",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--transformer-impl --master-weights",
     [](model::ModelSpec& m, StepConfig& c) {
       by_megatron(m, c);
       c.optimizer.master_weights = true;
     },
     "in any case"},
    {"--master-weights of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.optimizer.master_weights = true;
     },
     "of its capture"},
    {"--optimizer-in-backward --master-weights",
     [](auto&, StepConfig& c) {
       c.optimizer.master_weights = true;
       c.optimizer.in_backward = true;
     },
     "steps all parameters at once"},
    {"--offload gradients --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::gradients;
       sharded(c, Sharding::zero2);
     },
     "use --offload optimizer"},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, an optimizer other than adamw",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::zero2);
       c.optimizer.kind = Optimizer::sgd;
     },
     "DeepSpeedCPUAdam"},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, another dtype than bf16, or "
     "autocast",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::zero2);
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f32;
     },
     "bf16 alone"},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3 --lora",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero2);
       c.memory.offload = Offload::optimizer;
     },
     "adapters' partitions on the host"},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, ac-trainer or --gpu cpu",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::zero2);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--offload optimizer or gradients --world N, N above 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::ddp);
     },
     "--offload optimizer --world 8"},
    {"--offload optimizer or gradients --framework deepspeed --world 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.runtime.framework = "deepspeed";
     },
     "--offload optimizer --framework deepspeed"},
    {"--offload optimizer or gradients, an optimizer other than adamw and sgd",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.kind = Optimizer::lion;
     },
     "--offload optimizer --optimizer lion"},
    {"--offload gradients --grad-accum N, N above 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::gradients;
       c.run.grad_accum = 2;
     },
     "does not accumulate"},
    {"--offload optimizer or gradients --clip-grad NORM",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.clip_grad = 1.0;
     },
     "clipped later"},
    {"--offload optimizer or gradients --grad-scaler",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.grad_scaler = true;
     },
     "before the scaler"},
    {"--offload optimizer or gradients --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.in_backward = true;
     },
     "both of them hook"},
    {"--offload optimizer or gradients --ema or --lora",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.optimizer.ema = true;
     },
     "neither an average"},
    {"--offload optimizer or gradients --kernels compiled",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.memory.kernels = Kernels::compiled;
     },
     "beside its hooks"},
    {"--offload optimizer or gradients --cuda-graph",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "not captured"},
    {"--offload optimizer or gradients --gpu cpu",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.device.gpu = "cpu";
     },
     "no device to leave"},
    {"--offload optimizer or gradients, ac-trainer",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--offload activations, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the CPU's alone"},
    {"--offload activations --gpu cpu",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.device.gpu = "cpu";
     },
     "choose a GPU"},
    {"--offload activations --world N, N above 1",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       sharded(c, Sharding::ddp);
     },
     "--world 1"},
    {"--offload activations --ac of another mode than none and full",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.memory.ac = AcMode::selective;
     },
     "--ac none or full"},
    {"--offload activations --ac-scope submodule",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.memory.ac = AcMode::full;
       c.memory.scope = AcScope::submodule;
     },
     "within blocks"},
    {"--offload activations --kernels fused or compiled",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.memory.kernels = Kernels::fused;
     },
     "--kernels eager"},
    {"--offload activations --lora, but for --framework trl --ac full, without --dora and "
     "--quantize int8, and torchtune's without --dora and --quantize",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
     },
     "use --framework trl --ac full"},
    {"--offload activations --autocast --ac none",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "--ac full"},
    {"--offload activations --packing",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.run.packing = 4;
     },
     "packed rows"},
    {"--offload activations --framework torchtune, --ac none or a loss other than chunked-logits:N",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.runtime.framework = "torchtune";
     },
     "--loss chunked-logits:8"},
    {"--offload activations --loss other than ce and tiled",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.memory.loss = LossKind::lc_ce;
     },
     "other losses"},
    {"--offload activations, experts or an encoder of images",
     [](model::ModelSpec& m, StepConfig& c) {
       c.memory.offload = Offload::activations;
       m.moe = model::MoeSpec{.experts = 4, .top_k = 2, .intermediate = 64};
       m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
     },
     "their layers"},
    {"--offload activations --cuda-graph",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::activations;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "not captured"},
    {"--packing DOCS, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.run.packing = 4;
     },
     "--packing 4 for llama"},
    {"--seq S, gated delta nets of more than 65536 chunks of 64 tokens in all blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.run.seq = 65536 / 4 * 64;
     },
     "--seq 1048576 for llama"},
    {"--autocast, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "--autocast bf16 for llama"},
    {"--compute-dtype fp32, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f32;
     },
     "--compute-dtype fp32 for llama"},
    {"--gpu cpu, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.device.gpu = "cpu";
     },
     "--gpu cpu for llama"},
    {"--kernels fused or compiled, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.memory.kernels = Kernels::fused;
     },
     "--kernels fused for llama"},
    {"--pp N, --cuda-graph or --offload activations, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.memory.offload = Offload::activations;
     },
     "compared beside them"},
    {"--packing DOCS", [](auto&, StepConfig& c) { c.run.packing = 65536; }, "from 0 (not packed)"},
    {"--packing DOCS, more documents than tokens",
     [](auto&, StepConfig& c) { c.run.packing = 65; }, "--packing 65 --batch 2 --seq 32"},
    {"--packing DOCS, sliding windows",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       m.window[1] = 4096;
     },
     "--packing 4 for llama: windows"},
    {"--packing DOCS, latent attention, attention sinks, shared keys and values, scores that are "
     "capped, in fp32 or always masked",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       m.latent.emplace();
     },
     "Llama's attention"},
    {"--packing DOCS, positions other than a rotary table's of the batch",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       m.position_table = m.max_positions = 1024;
     },
     "Llama's positions"},
    {"--packing DOCS --attn cudnn, efficient, math or flash1",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.run.attention = Attention::cudnn;
     },
     "--packing 4 --attn cudnn"},
    {"--packing DOCS --attn flash, stablelm and nemotron",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.packing = 4;
       c.run.attention = Attention::flash;
       m.family = "nemotron";
     },
     "--packing 4 for nemotron"},
    {"--packing DOCS --attn flash --compute-dtype fp32",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.run.attention = Attention::flash;
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f32;
     },
     "bf16 and fp16 alone"},
    {"--packing DOCS --gpu cpu",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.device.gpu = "cpu";
     },
     "--packing 4 --gpu cpu"},
    {"--packing DOCS --tp T or --pp N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.run.packing = 4;
     },
     "--packing 4 --pp 2"},
    {"--packing DOCS --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero2);
       c.run.packing = 4;
     },
     "--packing 4 --shard zero2"},
    {"--packing DOCS --kernels fused or compiled",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.memory.kernels = Kernels::fused;
     },
     "--packing 4 --kernels fused"},
    {"--packing DOCS --cuda-graph",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "the host's"},
    {"--packing DOCS --quantize int8",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj,v_proj";
       c.adapters.quantize = Quantization::int8;
     },
     "use --quantize nf4 or none"},
    {"--packing DOCS --loss ce-compiled or chunked-logits:N",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.memory.loss = LossKind::chunked_logits;
       c.memory.chunk_tokens = 4;
     },
     "--packing 4 --loss chunked-logits:4"},
    {"--packing DOCS --images N",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.packing = 4;
     },
     "images of several documents"},
    {"--packing DOCS, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.run.packing = 4;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "use --gpu cpu"},
    {"--ep N, a model without experts, transformers' layers",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       m.moe.reset();
     },
     "--ep 4 for mixtral: there is nothing to share"},
    {"--ep N --framework other than hf",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.runtime.framework = "torchtitan";
     },
     "--ep 4 --framework torchtitan"},
    {"--ep N --tp T, --cp N or --pp P",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       sharing_experts(m, c);
     },
     "--ep 4: experts are planned beside FSDP2 alone"},
    {"--ep N --world W, or --shard hsdp:M",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.layout.shard = Sharding::hsdp;
       c.layout.hsdp_shards = 2;
     },
     "--ep 4 --world 8 --shard hsdp:2"},
    {"--ep N that does not divide the experts, transformers' layers",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.layout.ep = 8;
     },
     "--ep 8: each rank has as many"},
    {"--ep N, experts of another kind",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       m.family = "phimoe";
     },
     "--ep 4 for phimoe"},
    {"--ep N --batch B --seq S, tokens that do not spread evenly over the experts",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.run.batch = 1;
       c.run.seq = 31;
     },
     "--ep 4 --batch 1 --seq 31"},
    {"--ep N --capacity-factor F, transformers' layers",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.run.capacity_factor = 1.5;
     },
     "--ep 4: its experts are planned with balanced loads"},
    {"--ep N --clip-grad NORM",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.optimizer.clip_grad = 1.0;
     },
     "--ep 4: PyTorch's clip_grad_norm_ fails"},
    {"--ep N, an --optimizer other than adamw, adamw-foreach or sgd",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.optimizer.kind = Optimizer::sgd_momentum;
     },
     "--ep 4: others were not compared"},
    {"--ep N --kernels fused or compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.memory.kernels = Kernels::fused;
     },
     "--ep 4 --kernels fused"},
    {"--ep N --lora, --fp8, --offload, --packing, --master-weights, --ema or "
     "--optimizer-in-backward",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.optimizer.ema = true;
     },
     "--ep 4: they were not compared"},
    {"--ep N --reduce-dtype fp16 or --grad-scaler",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.precision.reduce_dtype = DType::f16;
     },
     "--ep 4: how gradients of several meshes"},
    {"--ep N --cuda-graph",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--ep 4: the host waits"},
    {"--ep N --ac attention, budget:SIZE or --ac-scope submodule",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.memory.ac = AcMode::attention;
     },
     "--ep 4 --ac attention"},
    {"--ep N without --balanced-routing, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "cpu";
     },
     "--ep 4: the trainer's tensors"},
    {"--ep N, ac-trainer on a GPU",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.runtime.kind = Runtime::ac_trainer;
       c.run.balanced_routing = true;
     },
     "--ep 4 --gpu h100-80gb"},
    {"--balanced-routing, PyTorch",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.run.balanced_routing = true;
     },
     "--balanced-routing, PyTorch: transformers' routers"},
    {"--balanced-routing, a model without experts, or with routers of other kinds",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.balanced_routing = true;
     },
     "--balanced-routing for llama"},
    {"--cp N --framework megatron or deepspeed",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.runtime.framework = "megatron";
     },
     "--cp 2 --framework megatron"},
    {"--cp N --world W",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.world = 3;
     },
     "--cp 2 --world 3"},
    {"--cp N --seq S, S no multiple of 2 N",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.run.seq = 34;
     },
     "--cp 2 --seq 34"},
    {"--cp N --cp-rank R, R of N or more",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.cp_rank = 2;
     },
     "--cp 2 --cp-rank 2"},
    {"--cp N --tp T --seq S, S / N no multiple of T",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.kv_heads = m.heads;
       c.layout.tp = 4;
       c.layout.world = 8;
       c.run.seq = 20;
     },
     "--cp 2 --tp 4 --seq 20"},
    {"--cp N --cp-method ulysses --seq S, S no multiple of N",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.run.seq = 33;
     },
     "--cp 2 --cp-method ulysses --seq 33"},
    {"--cp N --cp-method ulysses, heads that N does not divide",
     [](model::ModelSpec& m, StepConfig& c) {
       by_ulysses(c);
       m.heads = 5;
     },
     "--cp 2 --cp-method ulysses, 5 heads"},
    {"--cp N --cp-method ulysses, heads of keys and values",
     [](model::ModelSpec& m, StepConfig& c) {
       by_ulysses(c);
       m.heads = 6;
       m.kv_heads = 3;
     },
     "--cp 2 --cp-method ulysses, 3 heads of keys and values"},
    {"--cp N --cp-method ulysses --framework torchtitan, torchtune or automodel",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.runtime.framework = "torchtitan";
     },
     "--cp 2 --cp-method ulysses --framework torchtitan"},
    {"--cp N --cp-method ulysses --cuda-graph",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--cp 2 --cp-method ulysses --cuda-graph"},
    {"--cp N --cp-method ulysses --tp T",
     [](auto&, StepConfig& c) {
       by_ulysses(c);
       c.layout.tp = 2;
     },
     "--cp 2 --cp-method ulysses --tp 2"},
    {"--cp N --cp-method ulysses --pp P",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.world = 4;
       c.layout.cp = 2;
       c.layout.cp_method = CpMethod::ulysses;
       c.layout.shard = Sharding::fsdp2;
     },
     "--cp 2 --cp-method ulysses --pp 2"},
    {"--cp N --pp P, --tp or --shard hsdp:M",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.world = 8;
       c.layout.cp = 2;
       c.layout.shard = Sharding::hsdp;
       c.layout.hsdp_shards = 2;
     },
     "--cp 2 --pp 2"},
    {"--cp N --shard hsdp:M, M no multiple of N",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.shard = Sharding::hsdp;
       c.layout.hsdp_shards = 3;
       c.layout.world = 12;
     },
     "--cp 2 --shard hsdp:3"},
    {"--cp N, --shard other than fsdp2 and hsdp:M",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.shard = Sharding::ddp;
     },
     "--cp 2 --shard ddp"},
    {"--cp N, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.moe = model::MoeSpec{.experts = 4, .top_k = 2, .intermediate = 64};
     },
     "experts with parts of a sequence"},
    {"--cp N, a model whose layers are not like Llama's",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.fused_qkv = true;
     },
     "of parts of a sequence were not compared"},
    {"--cp N, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       in_a_ring(c);
       m.window.assign(static_cast<std::size_t>(m.layers), 8);
     },
     "takes no mask"},
    {"--cp N, --attn other than auto, flash or cudnn",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.run.attention = Attention::eager;
     },
     "--cp 2 --attn eager"},
    {"--cp N --compute-dtype fp32, PyTorch",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "--cp 2 --compute-dtype fp32"},
    {"--cp N --kernels fused or compiled",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.memory.kernels = Kernels::fused;
     },
     "--cp 2 --kernels fused"},
    {"--cp N, a loss other than ce and ce-no-upcast",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--cp 2 --loss lc-ce"},
    {"--cp N --ac attention or budget:SIZE",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.memory.ac = AcMode::attention;
     },
     "--cp 2 --ac attention"},
    {"--cp N --packing, --position-ids or --images",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.run.position_ids = true;
     },
     "positions of their own"},
    {"--cp N --autocast, --fp8, --lora, --offload or --output-dtype fp32",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.memory.wide_output = true;
     },
     "with parts of a sequence"},
    {"--position-ids, positions other than a rotary table's of the batch",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.position_ids = true;
       m.position_table = m.max_positions = 1024;
     },
     "Llama's positions"},
    {"--position-ids --packing DOCS",
     [](auto&, StepConfig& c) {
       c.run.position_ids = true;
       c.run.packing = 4;
     },
     "always carries its positions"},
    {"--position-ids --images N",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.position_ids = true;
     },
     "positions with images"},
    {"--position-ids --tp T or --pp N",
     [](model::ModelSpec& m, StepConfig& c) {
       c.run.position_ids = true;
       in_stages(m, c);
     },
     "--position-ids --pp 2"},
    {"--position-ids --kernels compiled",
     [](auto&, StepConfig& c) {
       c.run.position_ids = true;
       c.memory.kernels = Kernels::compiled;
     },
     "use --kernels eager or fused"},
    {"--position-ids, ac-trainer",
     [](auto&, StepConfig& c) {
       c.run.position_ids = true;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "measure without --position-ids"},
    {"--images N, a model without an encoder of images",
     [](auto&, StepConfig& c) { c.run.images = 1; }, "the configuration has none"},
    {"--images N, SigLIP (gemma3)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "siglip_vision_model";
     },
     "tokens of one image see each other"},
    {"--images N, Pixtral (mistral3)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "pixtral";
     },
     "masks between images"},
    {"--images N, the encoders of qwen2_5_vl and qwen3_vl",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "qwen3_vl_vision";
     },
     "image by image"},
    {"--images N, CLIP otherwise than LLaVA-1.5 runs it",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->run.reset();
     },
     "one layer's features"},
    {"--images N, more tokens than --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.images = c.run.seq / 4 + 1;
     },
     "of 4 tokens, --seq"},
    {"--images N --shard other than none",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       sharded(c, Sharding::fsdp2);
     },
     "--images 1 --shard fsdp2"},
    {"--images N --lora or --quantize",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.family = "llama";
       c.adapters.rank = 8;
     },
     "beside a frozen decoder"},
    {"--images N --autocast",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "--images 1 --autocast bf16"},
    {"--images N --attn eager",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.attention = Attention::eager;
     },
     "--images 1 --attn eager"},
    {"--images N --output-dtype fp32, --optimizer-in-backward or --kernels fused",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.memory.wide_output = true;
     },
     "--images 1 --output-dtype fp32"},
    {"--batch N", [](auto&, StepConfig& c) { c.run.batch = 0; }, "--batch 0"},
    {"--seq N", [](auto&, StepConfig& c) { c.run.seq = -1; }, "--seq -1"},
    {"--grad-accum N", [](auto&, StepConfig& c) { c.run.grad_accum = 0; }, "--grad-accum 0"},
    {"--world N", [](auto&, StepConfig& c) { c.layout.world = 0; }, "--world 0"},
    {"--batch B --seq S", [](auto&, StepConfig& c) { c.run.batch = c.run.seq = 1 << 16; },
     "--batch 65536 --seq 65536"},
    {"MODEL of more than 4096 blocks", [](model::ModelSpec& m, auto&) { m.layers = 5000; },
     "num_hidden_layers 5000: at most 4096"},
    {"--compute-dtype fp32 --param-dtype bf16 or fp16",
     [](auto&, StepConfig& c) { c.precision.compute_dtype = DType::f32; }, "--param-dtype fp32"},
    {"--param-dtype fp16 --compute-dtype bf16, or bf16 and fp16",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.precision.compute_dtype = DType::f16;
     },
     "--param-dtype bf16 --autocast fp16"},
    {"--grad-scaler --param-dtype fp16",
     [](auto&, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       c.optimizer.grad_scaler = true;
     },
     "use --autocast fp16"},
    {"--grad-scaler --lora RANK --lora-dtype bf16",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dtype = DType::bf16;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
       c.precision.compute_dtype = DType::f16;
       c.optimizer.grad_scaler = true;
     },
     "use --lora-dtype fp32"},
    {"--grad-scaler or fp16, --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero2);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
     },
     "--param-dtype fp16 --shard zero2"},
    {"--grad-scaler --optimizer-in-backward",
     [](auto&, StepConfig& c) { c.optimizer.grad_scaler = c.optimizer.in_backward = true; },
     "checks all gradients"},
    {"--grad-scaler, --pp N or --tp T",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.optimizer.grad_scaler = true;
     },
     "--grad-scaler --pp 2"},
    {"--grad-scaler --cuda-graph",
     [](auto&, StepConfig& c) {
       c.runtime.cuda_graph = CudaGraph::step;
       c.optimizer.grad_scaler = true;
     },
     "whether gradients were finite"},
    {"fp16 --kernels compiled",
     [](auto&, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       c.memory.kernels = Kernels::compiled;
     },
     "--param-dtype fp16 --kernels compiled"},
    {"fp16 --quantize HOW",
     [](auto&, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
       c.adapters.quantize = Quantization::nf4;
     },
     "--param-dtype fp16 --quantize nf4"},
    {"fp16, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       c.precision.param_dtype = c.precision.compute_dtype = DType::f16;
       m.moe.emplace();
     },
     "--param-dtype fp16 for"},
    {"--grad-scaler or fp16, ac-trainer",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.grad_scaler = true;
     },
     "--grad-scaler: planned for PyTorch"},
    {"--grad-scaler or fp16, an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.optimizer.grad_scaler = true;
     },
     "--grad-scaler of an imported graph"},
    {"--autocast, --shard other than none or ddp",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 8;
     },
     "--autocast bf16 --shard fsdp2"},
    {"--autocast --compute-dtype fp32",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "drop one of them"},
    {"--autocast, --loss lc-ce or chunked:TOKENS",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "--autocast bf16 --loss lc-ce"},
    {"--autocast, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
       m.moe.emplace();
     },
     "grouped products"},
    {"--param-dtype fp32 --compute-dtype bf16 or fp16, neither fsdp1, fsdp2 nor hsdp:N",
     [](auto&, StepConfig& c) { c.precision.param_dtype = DType::f32; },
     "--shard fsdp1, fsdp2 or hsdp:N"},
    {"--batch B --seq S of an imported graph, sizes that its capture does not scale to",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.run.batch = 77;
     },
     "--batch 77 --seq"},
    {"--param-dtype or --autocast of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "capture it again with --dtype"},
    {"--loss other than ce of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.loss = LossKind::ce_no_upcast;
     },
     "capture the model with that loss"},
    {"--kernels fused of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.kernels = Kernels::fused;
     },
     "with fused kernels in it"},
    {"--attn, --dropout, --capacity-factor, --packing, --position-ids or --images of an imported "
     "graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.run.attention = Attention::flash;
     },
     "its forward is the one"},
    {"--lora or --quantize of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.adapters.rank = 8;
     },
     "PEFT's adapters"},
    {"--tp, --cp or --pp of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.layout.tp = c.layout.world = 2;
     },
     "how its modules would be split"},
    {"--shard zero1, zero2 or zero3 of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       sharded(c, Sharding::zero2);
     },
     "--shard zero2 of an imported graph"},
    {"--fsdp-unit segment or torchtitan of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       sharded(c, Sharding::fsdp2);
       c.layout.fsdp_unit = FsdpUnit::segment;
     },
     "use --fsdp-unit block"},
    {"--shard of an imported graph, parameters of several dtypes",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c, {{.shape = {16}}, {.dtype = graph::DType::float32, .shape = {4}}});
       sharded(c, Sharding::ddp);
     },
     "of several are not planned yet"},
    {"--shard fsdp2 or hsdp:N of an imported graph, a parameter of no dimension",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c, {{.shape = {4}}, {.shape = {}}});
       sharded(c, Sharding::fsdp2);
     },
     "a dimension of one"},
    {"--shard ddp of an imported graph, a trained parameter without a gradient",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c, {{.shape = {4}}});
       sharded(c, Sharding::ddp);
     },
     "freeze it in make_model"},
    {"--optimizer-in-backward of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.optimizer.in_backward = true;
     },
     "not planned for graphs yet"},
    {"--grad-compression of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression.kind = Compression::bf16;
     },
     "not planned for graphs yet"},
    {"--ac of an imported graph without blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       m.layers = 0;
       c.memory.ac = AcMode::full;
     },
     "--blocks REGEX"},
    {"--ac attention, --ac modules or --ac-scope submodule of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.memory.ac = AcMode::attention;
     },
     "what its modules are to each other"},
    {"an imported graph, --gpu cpu",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.device.gpu = "cpu";
     },
     "name a GPU"},
    {"an imported graph, run by ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the trainer runs"},
    {"--cuda-graph of an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       import(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "its memory pool"},
    {"--loss chunked:TOKENS", [](auto&, StepConfig& c) { c.memory.loss = LossKind::chunked; },
     "--loss chunked:0"},
    {"--loss chunked:TOKENS --batch B --seq S",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::chunked;
       c.memory.chunk_tokens = 1;
       c.run.seq = 1 << 17;
     },
     "use larger ones"},
    {"--output-dtype fp32, a loss other than ce or ce-no-upcast",
     [](auto&, StepConfig& c) {
       c.memory.wide_output = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "--output-dtype fp32 --loss lc-ce"},
    {"--dropout P", [](auto&, StepConfig& c) { c.run.dropout = 1.5; }, "--dropout 1.5"},
    {"--attn efficient, keys and values that queries share",
     [](model::ModelSpec& m, StepConfig& c) {
       m.heads = 8;
       m.kv_heads = 2;
       c.run.attention = Attention::efficient;
     },
     "8 heads that share 2"},
    {"--attn efficient, --attn math, other than a step of PyTorch's on a GPU",
     [](auto&, StepConfig& c) {
       c.device.gpu = "cpu";
       c.run.attention = Attention::math;
     },
     "use flash, eager or auto"},
    {"--attn flash, latent attention",
     [](model::ModelSpec& m, StepConfig& c) {
       m.latent.emplace();
       c.run.attention = Attention::flash;
     },
     "use auto or eager"},
    {"--attn other than eager, where scores are soft-capped, have sinks or a bias, or are in fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       m.eager_attention_only = true;
       c.run.attention = Attention::flash;
     },
     "use --attn eager or auto"},
    {"--loss other than ce and ce-no-upcast, an LM head whose rows are divided by their length",
     [](model::ModelSpec& m, StepConfig& c) {
       m.normalized_head = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "use --loss ce"},
    {"--autocast, an LM head whose rows are divided by their length, or an RMSNorm whose division "
     "is a function of its own",
     [](model::ModelSpec& m, StepConfig& c) {
       m.normalized_head = true;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "add --autocast none"},
    {"--attn other than auto, where attention is always given a mask",
     [](model::ModelSpec& m, StepConfig& c) {
       m.always_masked = true;
       c.run.attention = Attention::eager;
     },
     "use --attn auto"},
    {"--autocast, where scores have a bias, are in fp32 or are computed without a kernel",
     [](model::ModelSpec& m, StepConfig& c) {
       m.alibi = true;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "add --autocast none"},
    {"--pp N or --fsdp-unit torchtitan, where scores have a bias or blocks tables of angles",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.rotation = model::Rotation::table;
       m.max_positions = 4096;
     },
     "leave it out"},
    {"--ac budget:SIZE", [](auto&, StepConfig& c) { c.memory.ac = AcMode::budget; },
     "the size must be positive"},
    {"--ac grouped:K, --ac every:K", [](auto&, StepConfig& c) { c.memory.ac = AcMode::every; },
     "--ac every:0: K must be at least 1"},
    {"--ac grouped:K or every:K, K above the model's blocks",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::grouped;
       c.memory.ac_arg = 5;
     },
     "--ac grouped:5 of 4 blocks"},
    {"--ac-scope submodule, --ac neither full nor every:K",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::sqrt;
       c.memory.scope = AcScope::submodule;
     },
     "name their own regions"},
    {"--framework automodel --ac selective --shard ddp",
     [](auto&, StepConfig& c) {
       c.runtime.framework = "automodel";
       c.memory.ac = AcMode::selective;
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
     },
     "--force"},
    {"--ac selective, a model that shares keys and values between blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       m.kv_sharing = true;
       c.memory.ac = AcMode::selective;
     },
     "--ac full --ac-scope submodule"},
    {"--shard fsdp1, an imported graph or a model with an encoder of images",
     [](model::ModelSpec& m, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       m.tower.emplace();
     },
     "text models of a configuration alone"},
    {"--shard fsdp1, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       with_delta_nets(m);
     },
     "gated delta nets: they were not compared under it"},
    {"--shard fsdp1 --tp, --cp or --ep",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.layout.tp = 2;
     },
     "flat parameters of parts of layers"},
    {"--shard fsdp1 --lora",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.adapters.rank = 8;
     },
     "share a flat gradient"},
    {"--shard fsdp1 --kernels compiled",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.memory.kernels = Kernels::compiled;
     },
     "views of flat parameters"},
    {"--shard fsdp1, checkpoints around several blocks",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.memory.ac = AcMode::grouped;
       c.memory.ac_arg = 2;
     },
     "--shard fsdp1 --ac grouped:2: the units' hooks would run again"},
    {"--shard fsdp1, a loss other than ce, ce-no-upcast, lc-ce and chunked:TOKENS",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.memory.loss = LossKind::tiled;
     },
     "--shard fsdp1 --loss tiled"},
    {"--shard fsdp1, fp16 or --grad-scaler",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.optimizer.grad_scaler = true;
     },
     "ShardedGradScaler"},
    {"--shard fsdp1 --fp8",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.precision.fp8 = Fp8Recipe::rowwise;
     },
     "torchao's layers were not compared"},
    {"--shard fsdp1, an optimizer other than adamw, adamw-foreach, sgd and sgd-momentum",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.optimizer.kind = Optimizer::lion;
     },
     "--shard fsdp1 --optimizer lion"},
    {"--shard fsdp1 --ema",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.optimizer.ema = true;
     },
     "an average of flat parameters"},
    {"--shard fsdp1, ac-trainer",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--shard fsdp1, ac-trainer: planned for PyTorch"},
    {"--shard fsdp1 --gpu cpu",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.device.gpu = "cpu";
     },
     "streams and blocks are a GPU's"},
    {"--shard none --world N, N above 1", [](auto&, StepConfig& c) { c.layout.world = 8; },
     "--shard none --world 8"},
    {"--shard of any kind --world 1", [](auto&, StepConfig& c) { c.layout.shard = Sharding::ddp; },
     "--shard ddp: needs --world 2"},
    {"--shard hsdp:N --world W",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::hsdp;
       c.layout.hsdp_shards = 3;
       c.layout.world = 8;
     },
     "--shard hsdp:3 --world 8: N must divide"},
    {"--fsdp-unit torchtitan, a tied or scaled embedding, or learned positions",
     [](auto& m, StepConfig& c) {
       with_ends_apart(m, c);
       m.tied_embeddings = true;
     },
     "units of their own"},
    {"--fsdp-unit torchtitan --lora",
     [](auto& m, StepConfig& c) {
       with_ends_apart(m, c);
       c.adapters.rank = 8;
     },
     "--fsdp-unit torchtitan --lora"},
    {"--fsdp-unit torchtitan, a loss that reads the head's weight",
     [](auto& m, StepConfig& c) {
       with_ends_apart(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--fsdp-unit torchtitan --loss lc-ce"},
    {"--keep-last-block --pp",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.keep_last_block = true;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 4;
     },
     "stages keep all of their blocks"},
    {"--keep-last-block, neither fsdp2 nor hsdp:N",
     [](auto&, StepConfig& c) { c.layout.keep_last_block = true; }, "resharding"},
    {"--no-sync --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::zero1;
       c.layout.world = 2;
       c.layout.no_sync = true;
     },
     "--no-sync --shard zero1: ZeRO 1 always"},
    {"--shard zero3, an architecture other than Llama's kind of dense decoder",
     [](model::ModelSpec& m, StepConfig& c) {
       m.plain_mlp = true;
       sharded(c, Sharding::zero3);
     },
     "--shard zero3 of a"},
    {"--shard zero3, --ac other than none, full or every:K",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.memory.ac = AcMode::selective;
     },
     "--shard zero3 --ac selective"},
    {"--shard zero3, --loss other than ce or ce-no-upcast",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.memory.loss = LossKind::lc_ce;
     },
     "--shard zero3 --loss lc-ce"},
    {"--shard zero3, parameters or gradients of another dtype than bf16, or autocast",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f32;
     },
     "bf16 alone"},
    {"--shard zero3 --kernels fused",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.memory.kernels = Kernels::fused;
     },
     "past its linear function"},
    {"--shard zero3, run by the trainer",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--optimizer-in-backward --grad-accum N, N above 1",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.run.grad_accum = 2;
     },
     "--grad-accum 2: gradients that are dropped"},
    {"--optimizer-in-backward --clip-grad NORM",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.optimizer.clip_grad = 1.0;
     },
     "all gradients at once"},
    {"--optimizer-in-backward, --shard other than none",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
     },
     "--optimizer-in-backward --shard ddp"},
    {"--optimizer-in-backward, --optimizer other than adamw or sgd",
     [](auto&, StepConfig& c) {
       c.optimizer.in_backward = true;
       c.optimizer.kind = Optimizer::adafactor;
     },
     "--optimizer-in-backward --optimizer adafactor"},
    {"--optimizer of another kind than adamw, adamw-foreach or sgd, --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::lion;
       c.layout.shard = Sharding::zero2;
       c.layout.world = 2;
     },
     "--optimizer lion --shard zero2"},
    {"--optimizer adamw-8bit, paged-adamw, paged-adamw-8bit or lion, --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::adamw_8bit;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "--optimizer adamw-8bit --shard fsdp2"},
    {"--optimizer muon, --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::muon;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "--optimizer muon --shard fsdp2"},
    {"--optimizer muon --grad-scaler",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::muon;
       c.optimizer.grad_scaler = true;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
       c.precision.compute_dtype = DType::f16;
     },
     "two optimizers"},
    {"--optimizer adafactor, --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.optimizer.kind = Optimizer::adafactor;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "rows and columns"},
    {"--ema --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.optimizer.ema = true;
       c.layout.shard = Sharding::zero1;
       c.layout.world = 2;
     },
     "no average of its own"},
    {"--cuda-graph of any kind --optimizer other than adamw",
     [](auto&, StepConfig& c) {
       c.runtime.cuda_graph = CudaGraph::step;
       c.optimizer.kind = Optimizer::sgd;
     },
     "--optimizer sgd"},
    {"--loss ce-compiled",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.memory.loss = LossKind::ce_compiled;
     },
     "not run by the trainer"},
    {"--clip-grad --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.clip_grad = 1.0;
       sharded(c, Sharding::zero2);
     },
     "of FSDP2's shards"},
    {"--ema, --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.ema = true;
     },
     "not run by the trainer"},
    {"--optimizer other than adamw, adamw-foreach, sgd, adamw-8bit and adamw-8bit-torchao",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.kind = Optimizer::sgd_momentum;
     },
     "not run by the trainer"},
    {"--optimizer adamw-8bit or adamw-8bit-torchao, on a GPU",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.kind = Optimizer::adamw_8bit;
       c.device.gpu = "h100-80gb";
     },
     "the CPU's alone"},
    {"--seq 1",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.seq = 1;
     },
     "no next token"},
    {"--dropout with flash attention",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.dropout = 0.5;
     },
     "--attn eager"},
    {"--attn cudnn, --attn flash1",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.attention = Attention::cudnn;
     },
     "the trainer has flash and eager"},
    {"a sliding window below --seq with flash attention",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.window[1] = 16;
     },
     "a sliding window of 16 tokens below --seq 32"},
    {"--loss chunked:TOKENS, a model that soft-caps its logits",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.memory.loss = LossKind::chunked;
       c.memory.chunk_tokens = 16;
       m.final_softcap = 30.0;
     },
     "use ce or lc-ce"},
    {"--capacity-factor",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.capacity_factor = 2.0;
     },
     "leave it out"},
    {"num_kv_shared_layers",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.kv_sharing = true;
     },
     "shared keys and values"},
    {"vision_config",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.tower.emplace();
     },
     "no encoder of images"},
    {"rope_scaling of another type",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.rope_scaling = model::RopeScaling{.type = "yarn"};
     },
     "rope_scaling \"yarn\""},
    {"--adapter METHOD --lora RANK",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::loha, 8);
       c.adapters.rank = 16;
     },
     "--adapter loha:8 --lora 16"},
    {"--adapter METHOD, --lora-dropout, --dora or --lora-dtype bf16",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.adapters.dora = true;
     },
     "--adapter ia3 --dora"},
    {"--adapter METHOD of no linear layers --lora-targets",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::prompt_tuning, 20);
       c.adapters.targets = "q_proj";
     },
     "--adapter prompt-tuning:20 --lora-targets q_proj"},
    {"--adapter ln-tuning, a family of whose norms PEFT knows no names",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::ln_tuning);
       m.family = "gpt_neox";
     },
     "--adapter ln-tuning for gpt_neox"},
    {"--adapter METHOD other than ia3, layers whose weights are [in, out]",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::lokr, 8);
       m.input_first = true;
     },
     "--adapter lokr:8 for llama"},
    {"--adapter glora:RANK, layers with biases",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::glora, 8);
       m.qkv_bias = true;
     },
     "--adapter glora:8 for llama"},
    {"--adapter oft:BLOCK, a layer of whose inputs BLOCK is no divisor",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::oft, 24); }, "--adapter oft:24 for llama"},
    {"--adapter road:VARIANT other than 1 and 2",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::road, 4); }, "--adapter road:4"},
    {"--adapter road:VARIANT, a layer whose outputs are no groups of 64",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::road, 1); },  // v: 32
     "--adapter road:1 for llama"},
    {"--adapter miss:RANK:MINI, a layer of whose outputs MINI is no divisor",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::miss, 16);
       c.adapters.factor = 64;
     },
     "--adapter miss:16:64 for llama"},
    {"--adapter trainable-tokens:N, more than the vocabulary has",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::trainable_tokens, 513); },
     "--adapter trainable-tokens:513"},
    {"--adapter METHOD, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       m.moe.emplace();
     },
     "frozen experts"},
    {"--adapter METHOD --quantize or --kbit-prepare",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.adapters.quantize = Quantization::nf4;
     },
     "--adapter ia3 --quantize nf4"},
    {"--adapter METHOD, --shard other than none",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::vera, 256);
       sharded(c, Sharding::fsdp2);
     },
     "--adapter vera:256 --shard fsdp2"},
    {"--adapter METHOD, --param-dtype other than bf16, or --autocast",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "--adapter ia3 --param-dtype fp32"},
    {"--adapter METHOD, --ac other than none and full, or of submodules",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.memory.ac = AcMode::selective;
     },
     "--adapter ia3 --ac selective"},
    {"--adapter prefix-tuning:TOKENS, --ac other than none",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::prefix_tuning, 30);
       c.memory.ac = AcMode::full;
     },
     "--adapter prefix-tuning:30 --ac full"},
    {"--adapter prefix-tuning:TOKENS, sliding windows, scores with a bias, learned positions, or "
     "attention other than auto and flash",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::prefix_tuning, 30);
       c.run.attention = Attention::eager;
     },
     "use --adapter prompt-tuning:TOKENS"},
    {"--adapter prefix-tuning:TOKENS, more than 32 blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::prefix_tuning, 30);
       m.layers = 33;
     },
     "plan fewer layers"},
    {"--adapter METHOD, --loss other than ce and ce-no-upcast",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.memory.loss = LossKind::lc_ce;
     },
     "--adapter ia3 --loss lc-ce"},
    {"--adapter METHOD, --packing, --position-ids, --optimizer muon, --kernels fused or compiled",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.run.position_ids = true;
     },
     "--adapter ia3 --position-ids"},
    {"--adapter METHOD --cuda-graph",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "leave --cuda-graph out"},
    {"--adapter METHOD --framework torchtune",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.runtime.framework = "torchtune";
     },
     "torchtune has LoRA"},
    {"--adapter METHOD, ac-trainer",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--adapter ia3, ac-trainer"},
    {"--lora RANK", [](auto&, StepConfig& c) { c.adapters.rank = -1; }, "--lora -1"},
    {"--lora RANK or --adapter METHOD, a family for which PEFT has no targets",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "olmo2";
       c.adapters.rank = 8;
     },
     "--lora-targets all-linear"},
    {"--lora-targets NAMES, one that no linear layer of a block ends in",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj,proj";  // PEFT's endings are whole parts of a name
     },
     "\"proj\""},
    {"--lora RANK, a mixture of experts, targets beside attention",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj,down_proj";
     },
     "--lora-targets q_proj,v_proj"},
    {"--lora RANK, a mixture of experts of another kind",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       m.attention_sinks = true;
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
     },
     "plan one of these"},
    {"--lora RANK --quantize, --dora, --lora-dropout or --autocast, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
       c.adapters.dropout = 0.1;
     },
     "none was compared"},
    {"--lora RANK, a mixture of experts, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj";
       c.runtime.kind = Runtime::ac_trainer;
     },
     "frozen experts"},
    {"--lora RANK, a family with latent attention or delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       m.latent.emplace();
     },
     "plan it without"},
    {"--quantize HOW, layers whose weights are [in, out]",
     [](model::ModelSpec& m, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.quantize = Quantization::nf4;
       m.input_first = true;
     },
     "use --quantize none"},
    {"--loss lc-ce or chunked:TOKENS, an LM head with a bias",
     [](model::ModelSpec& m, StepConfig& c) {
       m.head_bias = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "use --loss ce"},
    {"--seq N, a model with a table of positions",
     [](model::ModelSpec& m, StepConfig& c) {
       m.max_positions = 16;
       m.position_table = 16;
       c.run.seq = 17;
     },
     "--seq 17 of 16 positions"},
    {"--autocast, NemotronLayerNorm1P",
     [](model::ModelSpec& m, StepConfig& c) {
       m.norm = model::Norm::layer_plus_one;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "add --autocast none"},
    {"LayerNorm, an MLP without a gate, attention and MLP side by side, an interleaved rotation, "
     "learned positions, a shared expert, latent attention, attention sinks, positions in three "
     "grids, queries scaled by position, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       m.norm = model::Norm::layer;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--lora RANK --shard zero1, zero2 or zero3, ac-trainer",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero2);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--lora RANK --shard zero1 or zero2, adapters in another dtype than the computation",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero2);
       c.adapters.dtype = DType::f32;
     },
     "DeepSpeed casts all of the module"},
    {"--quantize int8 --shard zero1 or zero2, or --quantize --shard zero3",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero3);
       c.adapters.dtype = DType::f32;
       c.adapters.quantize = Quantization::nf4;
     },
     "--lora 8 --shard zero3"},
    {"--dora --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       adapted_in_partitions(c, Sharding::zero1);
       c.adapters.dora = true;
     },
     "--lora 8 --shard zero1"},
    {"--lora-dropout P", [](auto&, StepConfig& c) { c.adapters.dropout = 1.0; }, "0.05"},
    {"--quantize int8 --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) { quantized_shards(c, Quantization::int8); },
     "--quantize int8 --shard fsdp2"},
    {"--quantize HOW --shard fsdp2 or hsdp:N, --param-dtype fp32 or --kbit-prepare",
     [](auto&, StepConfig& c) {
       quantized_shards(c, Quantization::nf4);
       c.adapters.kbit_prepare = true;
     },
     "--quantize nf4 --shard fsdp2 --kbit-prepare"},
    {"--dora --quantize nf4 --shard fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       quantized_shards(c, Quantization::nf4);
       c.adapters.dora = true;
     },
     "--dora --quantize nf4 --shard fsdp2"},
    {"--loss ce-compiled --autocast",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.precision.param_dtype = DType::f32;
       c.precision.autocast = true;
     },
     "inside a compiled loss"},
    {"--loss ce-compiled --lora or --quantize",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.adapters.rank = 8;
     },
     "no such adapters"},
    {"--loss ce-compiled, --shard other than none, fsdp2 and hsdp:R",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.layout.world = 8;
       c.layout.shard = Sharding::ddp;
     },
     "--loss ce-compiled --shard ddp"},
    {"--loss ce-compiled --cuda-graph",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "outside of CUDA graphs"},
    {"--loss tiled --seq 1",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::tiled;
       c.run.seq = 1;
     },
     "give 2 or more"},
    {"--loss tiled --shard zero3, fsdp1, fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::tiled;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 8;
     },
     "--loss tiled --shard fsdp2"},
    {"--loss chunked-logits:N, a sequence that N does not divide",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::chunked_logits;
       c.memory.chunk_tokens = 7;
       c.run.seq = 64;
     },
     "--loss chunked-logits:7 --seq 64"},
    {"--loss chunked-logits:N --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::chunked_logits;
       c.memory.chunk_tokens = 8;
       c.run.seq = 64;
       c.layout.shard = Sharding::zero1;
       c.layout.world = 8;
     },
     "--loss chunked-logits:8 --shard zero1"},
    {"--loss tiled, --loss chunked-logits:N",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::tiled;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--dora --lora-dropout P",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.adapters.dropout = 0.1;
     },
     "--lora-dropout 0"},
    {"--dora --ac selective, attention or budget:SIZE",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.memory.ac = AcMode::selective;
     },
     "--dora --ac selective"},
    {"--dora --quantize int8 or nf4-double",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.adapters.quantize = Quantization::int8;
     },
     "--dora --quantize int8"},
    {"--lora RANK --ema",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.optimizer.ema = true;
     },
     "leave --ema out"},
    {"--lora RANK --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.optimizer.in_backward = true;
     },
     "frozen base"},
    {"--quantize HOW, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.runtime.kind = Runtime::ac_trainer;
       c.adapters.quantize = Quantization::nf4;
       c.device.gpu = "h100-80gb";
     },
     "the CPU's alone"},
    {"--grad-compression HOW --grad-accum K",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.run.grad_accum = 2;
     },
     "every micro-batch's backward"},
    {"--grad-compression powersgd:RANK of 3 or more, gradients in fp32",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "cuSOLVER"},
    {"--grad-compression HOW --grad-scaler",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.optimizer.grad_scaler = true;
     },
     "scaled errors"},
    {"--grad-compression HOW, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "h100-80gb";
     },
     "the CPU's alone"},
    {"--pp N --world W",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.world = 3;
     },
     "--pp 2 --world 3: N (times T of --tp) must divide the world"},
    {"--pp N --grad-accum M, M below N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.run.grad_accum = 1;
     },
     "--pp 2 --pp-schedule 1f1b --grad-accum 1: a pipeline's micro-batches"},
    {"--pp N --pp-schedule interleaved:V or zb1 --grad-accum M, no multiple of its rounds",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_schedule = PipelineSchedule::interleaved;
       c.layout.pp_chunks = 2;
       c.run.grad_accum = 5;  // two rounds
     },
     "--pp 2 --pp-schedule interleaved:2 --grad-accum 5"},
    {"--pp N of a model of too few blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp = c.layout.world = c.run.grad_accum = 7;
     },
     "--pp 7 --pp-schedule 1f1b: 7 stages of 4 blocks"},
    {"--pp-layers of another sum or number",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_layers = {2, 1};
     },
     "--pp 2 --pp-schedule 1f1b --pp-layers 2,1: 2 stages of 4 blocks"},
    {"--pp-rank R, R of N or more",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_rank = 2;
     },
     "--pp 2 --pp-rank 2: a pipeline's ranks are 0 to N - 1"},
    {"--pp --framework torchtitan, a model with tied embeddings",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.tied_embeddings = true;
       c.runtime.framework = "torchtitan";
     },
     "--pp 2 for llama: the first and the last stage"},
    {"--pp, a model whose blocks need more than hidden states",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.embedding_dropout = 0.1;
     },
     "--pp 2 for llama: stages hand on hidden states alone"},
    {"--pp, --shard ddp or zeroN",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.shard = Sharding::ddp;
       c.layout.world = 4;
     },
     "--pp 2 --shard ddp"},
    {"--pp-schedule interleaved:V or zb1:V, V above 3, --shard fsdp2 or hsdp:N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.layers = 8;
       m.window.assign(8, 0);
       c.layout.pp_schedule = PipelineSchedule::interleaved;
       c.layout.pp_chunks = 4;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 4;
     },
     "--pp 2 --pp-schedule interleaved:4 --shard fsdp2"},
    {"--pp N --pp-schedule dualpipev --grad-accum M, M below 2 N",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.pp_schedule = PipelineSchedule::dual_pipe_v;
       c.layout.pp_chunks = 2;
       c.run.grad_accum = 3;
     },
     "--pp 2 --pp-schedule dualpipev --grad-accum 3: ScheduleDualPipeV needs"},
    {"--pp-schedule zb1, zbv or dualpipev, --ac of any kind",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.memory.ac = AcMode::full;
     },
     "--pp 2 --pp-schedule zb1 --ac full"},
    {"--pp-schedule zb1, zbv or dualpipev, --kernels fused or compiled",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.memory.kernels = Kernels::fused;
     },
     "--pp 2 --pp-schedule zb1 --kernels fused"},
    {"--pp-schedule zb1, zbv or dualpipev, --cp",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.layout.cp = 2;
       c.layout.world = 4;
       c.layout.shard = Sharding::fsdp2;
     },
     "--pp 2 --pp-schedule zb1: a ring's backward"},
    {"--pp-schedule zb1, zbv or dualpipev, --tp",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.layout.tp = 2;
       c.layout.world = 4;
     },
     "--pp 2 --pp-schedule zb1: how DTensors' gradients wait"},
    {"--pp-schedule zb1, zbv or dualpipev, a mixture of experts, delta nets, LayerNorm or FP8",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       m.norm = model::Norm::layer;
     },
     "--pp 2 --pp-schedule zb1 for llama"},
    {"--pp-schedule zbv or dualpipev, a model with tied embeddings",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.tied_embeddings = true;
       c.layout.pp_schedule = PipelineSchedule::zbv;
       c.layout.pp_chunks = 2;
     },
     "--pp 2 --pp-schedule zbv for llama: the first and the last stage are of one rank"},
    {"--pp-schedule zb1, zbv or dualpipev, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--pp 2 --pp-schedule zb1: planned for PyTorch, not run by the trainer"},
    {"--pp-schedule zb1 --framework torchtitan",
     [](model::ModelSpec& m, StepConfig& c) {
       in_parts(m, c);
       c.runtime.framework = "torchtitan";
     },
     "--pp 2 --pp-schedule zb1: TorchTitan 0.2.2"},
    {"--pp, a loss other than ce or ce-no-upcast",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--pp 2 --loss lc-ce"},
    {"--pp --hold-output",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.hold_output = true;
     },
     "use --no-hold-output"},
    {"--pp --autocast or --output-dtype fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.wide_output = true;
     },
     "leave them out"},
    {"--pp --ac budget:SIZE",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.ac = AcMode::budget;
       c.memory.ac_arg = 1 << 30;
     },
     "use full, selective or every:K"},
    {"--pp --lora",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.adapters.rank = 8;
     },
     "leave one of them out"},
    {"--pp --no-sync",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.no_sync = true;
     },
     "leave --no-sync out"},
    {"--pp --cuda-graph",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "use --cuda-graph off"},
    {"--tp T --world N",
     [](auto&, StepConfig& c) {
       c.layout.tp = 2;
       c.layout.world = 3;
     },
     "--tp 2 --world 3: T must divide the world"},
    {"--tp, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       m.moe.emplace();
     },
     "--tp 2 for llama: how experts are split"},
    {"--tp, a model whose layers are not like Llama's",
     [](model::ModelSpec& m, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       m.fused_qkv = true;
     },
     "layers of their own"},
    {"--tp T, heads, MLP or vocabulary that T does not divide",
     [](auto&, StepConfig& c) { c.layout.tp = c.layout.world = 4; },
     "--tp 4 of 4 heads, 2 of keys and values, 160 in the MLP and a vocabulary of 512 (these have "
     "1, 2)"},
    {"--tp T --seq S, S no multiple of T",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.run.seq = 33;
     },
     "--tp 2 --seq 33"},
    {"--tp, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       m.window.assign(4, 16);
     },
     "step ends with an error"},
    {"--tp --no-sp",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.layout.sequence_parallel = false;
     },
     "leave --no-sp out"},
    {"--tp, --shard other than none, fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.layout.tp = 2;
       c.layout.world = 4;
       c.layout.shard = Sharding::ddp;
     },
     "--tp 2 --shard ddp"},
    {"--tp --attn eager",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.run.attention = Attention::eager;
     },
     "use --attn auto, flash or cudnn"},
    {"--tp, a loss other than ce",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.memory.loss = LossKind::lc_ce;
     },
     "--tp 2 --loss lc-ce"},
    {"--tp --kernels fused",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.memory.kernels = Kernels::fused;
     },
     "use --kernels eager"},
    {"--tp --autocast",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "its casts of DTensors"},
    {"--tp --output-dtype fp32",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.memory.wide_output = true;
     },
     "the cast of a DTensor's logits"},
    {"--tp --lora",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
     },
     "adapters of split layers"},
    {"--tp, an optimizer other than adamw, adamw-foreach or sgd",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.optimizer.kind = Optimizer::muon;
     },
     "--tp 2 --optimizer muon"},
    {"--tp --ema or --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.optimizer.ema = true;
     },
     "what they make of DTensors"},
    {"--compile-unit model, --kernels other than compiled",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.memory.kernels = Kernels::eager;
     },
     "add --kernels compiled"},
    {"--compile-unit model, a loss other than ce",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--compile-unit model --loss lc-ce"},
    {"--compile-unit model, --ac other than none, full, every:K, selective and memory-budget:F",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.memory.ac = AcMode::attention;
     },
     "--compile-unit model --ac attention"},
    {"--compile-unit model, --attn other than cudnn",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.run.attention = Attention::automatic;
     },
     "give --attn cudnn"},
    {"--compile-unit model --shard other than none",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.layout.world = 2;
       c.layout.shard = Sharding::fsdp2;
     },
     "--compile-unit model --shard fsdp2"},
    {"--compile-unit model, run by the trainer",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "it compiles blocks"},
    {"--compile-unit model, logits that are capped",
     [](model::ModelSpec& m, StepConfig& c) {
       whole_model(c);
       m.final_softcap = 30.0;
     },
     "--compile-unit model for"},
    {"--kernels compiled, experts that are sampled, have biases, all run or are chosen from "
     "several groups, latent attention, other fused projections, attention sinks, masks of every "
     "block, images",
     [](model::ModelSpec& m, StepConfig& c) {
       m.always_masked = true;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled for"},
    {"--framework torchtitan --kernels compiled, experts",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       c.runtime.framework = "torchtitan";
       c.memory.kernels = Kernels::compiled;
     },
     "as TorchTitan compiles it"},
    {"--compile-unit model, blocks of kinds that were not compared so",
     [](model::ModelSpec& m, StepConfig& c) {
       whole_model(c);
       m.plain_mlp = true;
     },
     "squared ReLU"},
    {"--kernels compiled, blocks other than Llama's kind, dropout, --autocast or --shard ddp, run by "
     "the trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       m.norm = model::Norm::layer;
       c.memory.kernels = Kernels::compiled;
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "cpu";
     },
     "its interpreter has no LayerNorm"},
    {"--kernels compiled, attention that is not one kernel",
     [](auto&, StepConfig& c) {
       c.run.attention = Attention::eager;
       c.memory.kernels = Kernels::compiled;
     },
     "use --attn auto"},
{"--kernels compiled --compute-dtype fp32 on a GPU",
     [](auto&, StepConfig& c) {
       c.memory.kernels = Kernels::compiled;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "use --kernels eager"},
    {"--kernels compiled, a sliding window within --seq, --compile-unit model or --attn other than "
     "cudnn",
     [](model::ModelSpec& m, StepConfig& c) {
       m.window.assign(static_cast<std::size_t>(m.layers), 4);
       c.memory.kernels = Kernels::compiled;
     },
     "a sliding window of 4 tokens"},
    {"--kernels compiled --dropout P",
     [](auto&, StepConfig& c) {
       c.run.dropout = 0.1;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled with dropout of attention"},
    {"--kernels compiled, residual dropout and checkpoints or --compile-unit model",
     [](model::ModelSpec& m, StepConfig& c) {
       m.residual_dropout = 0.1;
       c.memory.ac = AcMode::full;
       c.memory.kernels = Kernels::compiled;
     },
     "checkpoints around the dropout"},
    {"--kernels compiled, --ac other than none, full, every:K, selective, memory-budget:F and "
     "budget:SIZE",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::sqrt;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --ac sqrt"},
    {"--ac memory-budget:F, --kernels other than compiled",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::memory_budget;
       c.memory.memory_budget = 0.5;
     },
     "--ac memory-budget:0.5 --kernels eager"},
    {"--kernels compiled --ac memory-budget:F or budget:SIZE, --attn auto",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::memory_budget;
       c.memory.memory_budget = 0.5;
       c.memory.kernels = Kernels::compiled;
     },
     "--ac memory-budget:0.5 --attn auto"},
    {"--kernels compiled --quantize int8",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.quantize = Quantization::int8;
       c.memory.kernels = Kernels::compiled;
     },
     "MatMul8bitLt"},
    {"--kernels compiled --quantize nf4 or nf4-double",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.quantize = Quantization::nf4;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --quantize nf4"},
    {"--kernels compiled --lora, --dora, --lora-dropout or --autocast",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.adapters.dora = true;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --lora with --dora"},
    {"--kernels compiled --lora, experts",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe = model::MoeSpec{.experts = 4, .top_k = 2, .intermediate = 64};
       c.adapters.rank = 8;
       c.adapters.targets = "q_proj,v_proj";
       c.memory.kernels = Kernels::compiled;
     },
     "adapters beside compiled experts"},
    {"--kernels compiled --lora of another family",
     [](model::ModelSpec& m, StepConfig& c) {
       m.family = "phi3";
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --lora of phi3"},
    {"--kernels compiled --lora, --shard other than none",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp2);
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --lora --shard fsdp2"},
    {"--kernels compiled --lora, --compile-unit model",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
     },
     "adapters in a graph of the model"},
    {"--kernels compiled --lora, run by the trainer",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
       c.memory.kernels = Kernels::compiled;
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "cpu";
     },
     "run by the trainer"},
    {"--compile-unit model --autocast",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "use --autocast none"},
    {"--kernels compiled --tp T, T above 8",
     [](auto& m, StepConfig& c) {
       m.heads = m.kv_heads = 16;
       c.layout.tp = c.layout.world = 16;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --tp 16"},
    {"--kernels compiled --tp or --pp --compile-unit model",
     [](auto& m, StepConfig& c) {
       whole_model(c);
       in_stages(m, c);
     },
     "a graph of the whole model is not split"},
    {"--kernels compiled --tp or --pp, run by the trainer",
     [](auto& m, StepConfig& c) {
       in_stages(m, c);
       c.memory.kernels = Kernels::compiled;
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "cpu";
     },
     "its ranks run eager and fused blocks"},
    {"--kernels compiled --shard ddp, --ac other than full",
     [](auto&, StepConfig& c) {
       c.layout.world = 2;
       c.layout.shard = Sharding::ddp;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --shard ddp --ac none"},
    {"--kernels compiled, --shard other than none, ddp, fsdp2 and hsdp:R",
     [](auto&, StepConfig& c) {
       c.layout.world = 2;
       c.layout.shard = Sharding::zero2;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --shard zero2"},
    {"--kernels compiled --cuda-graph step",
     [](auto&, StepConfig& c) {
       c.runtime.cuda_graph = CudaGraph::step;
       c.memory.kernels = Kernels::compiled;
     },
     "use --cuda-graph segments"},
    {"--kernels compiled --cuda-graph segments --grad-accum above 1",
     [](auto&, StepConfig& c) {
       whole_model(c);
       c.runtime.cuda_graph = CudaGraph::segments;
       c.run.grad_accum = 2;
     },
     "use --grad-accum 1"},
    {"--kernels compiled --compile-unit block --cuda-graph segments",
     [](auto&, StepConfig& c) {
       c.runtime.cuda_graph = CudaGraph::segments;
       c.memory.kernels = Kernels::compiled;
     },
     "use --compile-unit model"},
    {"--kernels compiled, run by the trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.memory.kernels = Kernels::compiled;
     },
     "use --kernels fused"},
    {"--tp --no-loss-parallel",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.layout.loss_parallel = false;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "leave --no-loss-parallel out"},
    {"--tp --no-sync, --shard hsdp:N or an optimizer other than adamw and sgd",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.optimizer.kind = Optimizer::adamw_foreach;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--shard none or fsdp2"},
    {"--cp --tp, --pp or --shard hsdp:N",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.tp = 2;
       c.layout.world = 4;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--tp or --pp, dropout",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.attention_dropout = 0.1;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "drop the same elements"},
};

}  // namespace

TEST_CASE("each exclusion refuses its configuration, and says what, why and what instead") {
  for (const Case& one : cases) {
    INFO(std::string(one.options));
    model::ModelSpec spec = small_model();
    StepConfig config = small_config();
    CHECK(refused(spec, config) == "accepted");
    one.change(spec, config);
    const std::string said = refused(spec, config);
    CHECK(said.find(one.says) != std::string::npos);
    const passes::Exclusion* row = nullptr;
    for (const passes::ExclusionGroup& group : passes::exclusions())
      for (const passes::Exclusion& e : group.exclusions)
        if (e.options == std::string(one.options)) row = &e;
    REQUIRE(row != nullptr);
    CHECK(said == passes::message(*row, spec, config));
    CHECK(said.find(row->reason) != std::string::npos);
    CHECK(said.find(row->instead) != std::string::npos);
  }
}

TEST_CASE("no exclusion is without a case here, and none stands twice") {
  std::set<std::string> tried, rows;
  for (const Case& one : cases) tried.insert(one.options);
  for (const passes::ExclusionGroup& group : passes::exclusions())
    for (const passes::Exclusion& e : group.exclusions) {
      CHECK(rows.insert(e.options).second);
      INFO(e.options);
      CHECK(tried.contains(e.options));
    }
}

TEST_CASE("docs/exclusions.md is the table of exclusions (AC_ADVISOR_UPDATE_DOCS=1 writes it)") {
  if (std::getenv("AC_ADVISOR_UPDATE_DOCS") != nullptr)
    std::ofstream(page_file()) << passes::exclusions_page();
  std::stringstream page;
  page << std::ifstream(page_file()).rdbuf();
  CHECK(page.str() == passes::exclusions_page());
}

}  // namespace ac_advisor::test
