// Refused: shared experts and gated delta nets.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

/// A mixture of transformers' whose configuration has a router_aux_loss_coef.
void balanced(model::ModelSpec& m, StepConfig& c, const char* framework, bool asks = false) {
  m.family = "mixtral";
  with_mixture(m, 4);
  m.moe->returns_logits = asks;
  c.runtime.framework = framework;
}

/// TorchTitan's own qwen3 with experts.
void by_titan(model::ModelSpec& m, StepConfig& c) {
  sharing_experts(m, c);
  m.family = "qwen3_moe";
  m.qkv_bias = m.tied_embeddings = false;
  m.qk_norm = true;
  c.runtime.framework = "torchtitan";
  c.run.transformer_impl = TransformerImpl::torchtitan;
}

const Case cases[] = {
    {"--framework trl, a mixture whose configuration has no num_experts",
     [](model::ModelSpec& m, StepConfig& c) {
       balanced(m, c, "trl");
       m.family = "phimoe";
       m.moe->sparse_mixer = true;
     },
     "TRL's trainers for phimoe"},
    {"a configuration with output_router_logits, --task other than sft",
     [](model::ModelSpec& m, StepConfig& c) {
       balanced(m, c, "trl", true);
       c.task.kind = Task::orpo;
     },
     "--task orpo for mixtral with output_router_logits"},
    {"--router-aux-loss on, a model without that loss",
     [](model::ModelSpec&, StepConfig& c) { c.task.router_loss = RouterLoss::on; },
     "--router-aux-loss on for"},
    {"the routers' auxiliary loss, --framework other than hf, hf-trainer and trl",
     [](model::ModelSpec& m, StepConfig& c) { balanced(m, c, "automodel", true); },
     "--framework automodel for mixtral"},
    {"the routers' auxiliary loss, --loss other than ce",
     [](model::ModelSpec& m, StepConfig& c) {
       balanced(m, c, "hf", true);
       c.memory.loss = LossKind::lc_ce;
     },
     "this loss for mixtral"},
    {"the routers' auxiliary loss, ac-trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       balanced(m, c, "hf", true);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "ac-trainer for mixtral"},
    {"the routers' auxiliary loss, --kernels compiled, --pp P or --ep N",
     [](model::ModelSpec& m, StepConfig& c) {
       balanced(m, c, "trl");
       c.memory.kernels = Kernels::compiled;
     },
     "the auxiliary loss of mixtral"},
    {"--ep N, a model without experts, transformers' layers",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       m.moe.reset();
     },
     "--ep 4 for mixtral: there is nothing to share"},
    {"--ep N --framework other than hf, other than torchtitan with its own layers",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.runtime.framework = "torchtitan";
     },
     "--ep 4 --framework torchtitan"},
    {"--ep N --tp T, or transformers' layers --cp N or --pp P",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       sharing_experts(m, c);
     },
     "--ep 4: transformers' experts are planned beside FSDP2 alone"},
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
    {"--ep N --clip-grad NORM, transformers' layers",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.optimizer.clip_grad = 1.0;
     },
     "--ep 4: PyTorch's clip_grad_norm_ fails"},
    {"--ep N --framework torchtitan, more ranks than experts, and a width that they do not divide",
     [](model::ModelSpec& m, StepConfig& c) {
       by_titan(m, c);
       c.layout.world = 24;
       m.moe->intermediate = 20;
     },
     "--ep 4: each rank has a part of each of its experts' rows"},
    {"--ep N --cuda-graph",
     [](model::ModelSpec& m, StepConfig& c) {
       sharing_experts(m, c);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "--ep 4: the host waits"},
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
    {"--compute-dtype fp32, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.precision.param_dtype = c.precision.compute_dtype = c.precision.reduce_dtype = DType::f32;
     },
     "casts to fp32 that are none then are not"},
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
     "fused kernels and compiled blocks are no"},
    {"--pp N, --cuda-graph or --offload activations, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       c.memory.offload = Offload::activations;
     },
     "none of them is planned beside them"},
};

}  // namespace

std::span<const Case> experts_cases() { return cases; }

}  // namespace ac_advisor::test
