// Refused: compiled blocks and CUDA graphs.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void compiled_over_nf4(StepConfig& c) {
  c.adapters.rank = 8;
  c.adapters.targets = "all-linear";
  c.adapters.quantize = Quantization::nf4;
  c.memory.kernels = Kernels::compiled;
}

void compiled_dora(StepConfig& c) {
  c.adapters.rank = 8;
  c.adapters.targets = "q_proj";
  c.adapters.dora = true;
  c.memory.kernels = Kernels::compiled;
}

const Case cases[] = {
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
     "what else is kept inside of the graph is"},
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
    {"--kernels compiled, experts that are sampled, have biases, all run, are chosen from several "
     "groups or by logits alone, or routers in fp32, latent attention, other fused projections, "
     "attention sinks, masks of every "
     "block, images",
     [](model::ModelSpec& m, StepConfig& c) {
       m.always_masked = true;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled for"},
    {"--compile-unit model, blocks of kinds that are not planned so",
     [](model::ModelSpec& m, StepConfig& c) {
       whole_model(c);
       m.plain_mlp = true;
     },
     "squared ReLU"},
    {"--kernels compiled, blocks other than Llama's kind, dropout, --autocast or --shard ddp, run "
     "by "
     "the trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       m.norm = model::Norm::layer;
       c.memory.kernels = Kernels::compiled;
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "cpu";
     },
     "its interpreter has no LayerNorm"},
    {"--kernels compiled, attention that is not one kernel, --ac budget:SIZE, --compile-unit "
     "model, "
     "--gpu cpu, the trainer, or scores in another dtype or with distances",
     [](auto&, StepConfig& c) {
       c.run.attention = Attention::eager;
       c.memory.kernels = Kernels::compiled;
       c.memory.ac = AcMode::budget;
       c.memory.ac_arg = 1 << 30;
     },
     "use --ac memory-budget:F"},
    {"--kernels compiled, attention that is not one kernel, a --seq above 1024 that is no multiple "
     "of 64",
     [](auto&, StepConfig& c) {
       c.run.attention = Attention::eager;
       c.memory.kernels = Kernels::compiled;
       c.run.seq = 1500;
     },
     "--seq 1500"},
    {"--kernels compiled --compute-dtype fp32 on a GPU",
     [](auto&, StepConfig& c) {
       c.memory.kernels = Kernels::compiled;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "use --kernels eager"},
    {"--kernels compiled --attn flash of soft-capped scores, --batch 1, --shard zero3, --ac "
     "memory-budget:F or budget:SIZE",
     [](model::ModelSpec& m, StepConfig& c) {
       m.eager_attention_only = true;
       m.attention_softcap = 50.0;
       c.run.attention = Attention::flash;
       c.memory.kernels = Kernels::compiled;
       c.run.batch = 1;
     },
     "flash-attn's own op"},
    {"--compile-unit model, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       whole_model(c);
       m.window.assign(static_cast<std::size_t>(m.layers), 4);
     },
     "a sliding window of 4 tokens"},
    {"--kernels compiled --gpu cpu, a sliding window within --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       m.window.assign(static_cast<std::size_t>(m.layers), 4);
       c.memory.kernels = Kernels::compiled;
       c.device.gpu = "cpu";
     },
     "what a CPU runs of a block with a mask"},
    {"--kernels compiled --attn flash, a sliding window within a --seq that is no multiple of 8",
     [](model::ModelSpec& m, StepConfig& c) {
       m.window.assign(static_cast<std::size_t>(m.layers), 4);
       c.run.attention = Attention::flash;
       c.run.seq = 1001;
       c.memory.kernels = Kernels::compiled;
     },
     "a multiple of 8"},
    {"--kernels compiled --dropout P",
     [](auto&, StepConfig& c) {
       c.run.dropout = 0.1;
       c.memory.kernels = Kernels::compiled;
     },
     "what torch.compile makes of attention wi"},
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
    {"--kernels compiled --quantize nf4 or nf4-double, FSDP",
     [](auto&, StepConfig& c) {
       compiled_over_nf4(c);
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 2;
     },
     "no full graph"},
    {"--kernels compiled --quantize nf4 or nf4-double --shard zero3",
     [](auto&, StepConfig& c) {
       compiled_over_nf4(c);
       sharded(c, Sharding::zero3);
     },
     "--kernels compiled --quantize nf4 --shard zero3"},
    {"--kernels compiled --quantize nf4 or nf4-double --fp8 RECIPE",
     [](auto&, StepConfig& c) {
       compiled_over_nf4(c);
       c.precision.fp8 = Fp8Recipe::rowwise;
     },
     "--kernels compiled --quantize nf4 --fp8 rowwise"},
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
    {"--kernels compiled --cp-method alltoall or ulysses",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp2);
       c.layout.cp = 2;
       c.layout.cp_method = CpMethod::all_to_all;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --cp-method alltoall"},
    {"--kernels compiled --ep N",
     [](model::ModelSpec& m, StepConfig& c) {
       m.moe.emplace();
       m.moe->experts = 4;
       sharded(c, Sharding::fsdp2);
       c.layout.ep = 2;
       c.memory.kernels = Kernels::compiled;
     },
     "around an all-to-all"},
    {"--kernels compiled --adapter METHOD",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::loha, 8);
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --adapter loha"},
    {"--kernels compiled --dora --quantize nf4 or nf4-double",
     [](auto&, StepConfig& c) {
       compiled_dora(c);
       c.adapters.quantize = Quantization::nf4;
     },
     "of bitsandbytes' weights, their class"},
    {"--kernels compiled --dora, checkpoints within the compiled blocks",
     [](auto&, StepConfig& c) {
       compiled_dora(c);
       c.memory.ac = AcMode::full;
     },
     "it clears a dictionary"},
    {"--kernels compiled --dora, --compile-unit model, --fp8 RECIPE, --shard zero3, or "
     "AutoModel's --packing or --cp",
     [](auto&, StepConfig& c) {
       compiled_dora(c);
       sharded(c, Sharding::zero3);
     },
     "--kernels compiled --dora --shard zero3"},
    {"--framework automodel --kernels compiled with --packing or --cp, --tp, --ac other than none, "
     "selective and full --ac-scope submodule",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp2);
       c.layout.cp = 2;
       c.runtime.framework = "automodel";
       c.memory.ac = AcMode::full;
       c.memory.kernels = Kernels::compiled;
     },
     "--framework automodel --kernels compiled --ac full"},
    {"--kernels compiled --shard zero3, experts, --ac memory-budget:F or budget:SIZE",
     [](auto&, StepConfig& c) {
       c.layout.world = 2;
       c.layout.shard = Sharding::zero3;
       c.memory.ac = AcMode::memory_budget;
       c.memory.memory_budget = 0.5;
       c.run.attention = Attention::flash;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled --shard zero3 --ac memory-budget:0.5"},
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
     "the first micro-batch's gradients lie in"},
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
    {"--cuda-graph of any kind --optimizer other than adamw",
     [](auto&, StepConfig& c) {
       c.runtime.cuda_graph = CudaGraph::step;
       c.optimizer.kind = Optimizer::sgd;
     },
     "--optimizer sgd"},
};

}  // namespace

std::span<const Case> compiled_cases() { return cases; }

}  // namespace ac_advisor::test
