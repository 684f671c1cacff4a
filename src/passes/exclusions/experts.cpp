// What is planned of --ep with transformers' layers, and what is not.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

/// Whose experts beside an all-to-all were compared with transformers'.
constexpr std::array<std::string_view, 4> compared = {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe"};

bool is_compared(const ModelSpec& m) {
  return std::find(compared.begin(), compared.end(), m.family) != compared.end();
}
bool shared(const StepConfig& c) { return c.layout.ep > 1; }
bool trained(const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }
/// TorchTitan's own experts, by its ExpertParallel.
bool of_titan(const ModelSpec& m, const StepConfig& c) {
  return model::layer_forms(m, c).padded_experts;
}
bool cuts_unevenly(const ModelSpec& m, const StepConfig& c) {
  const std::int64_t ranks = fsdp_shards(c) / c.layout.ep;
  return shards_second_dim(c, m.moe->experts / c.layout.ep) &&
         (m.hidden % ranks != 0 || m.moe->intermediate % ranks != 0);
}
std::string ep_option(const StepConfig& c) { return "--ep " + std::to_string(c.layout.ep); }
std::string ep_text(const ModelSpec&, const StepConfig& c) { return ep_option(c); }
std::string with_model(const ModelSpec& m, const StepConfig& c) {
  return ep_option(c) + " for " + m.family;
}

constexpr Exclusion of_experts[] = {
    {"--ep N, a model without experts, transformers' layers", "there is nothing to share",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) { return shared(c) && !m.moe && m.layers > 0; },
     with_model},
    {"--ep N --framework other than hf, other than torchtitan with its own layers",
     "transformers' own expert parallelism is planned, TorchTitan's of its qwen3, and Megatron's; "
     "others' is of model code of their own, and Trainers clip",
     "use --framework hf, or --framework megatron --transformer-impl transformer_engine",
     [](const ModelSpec& m, const StepConfig& c) {
       return shared(c) && c.runtime.framework != "hf" && !of_titan(m, c);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return ep_option(c) + " --framework " + c.runtime.framework;
     }},
    {"--ep N --tp T, or transformers' layers --cp N or --pp P",
     "transformers' experts are planned beside FSDP2 alone, and it refuses them in a pipeline; "
     "TorchTitan's are planned beside --cp and --pp",
     "leave these out",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool more = c.layout.cp > 1 || c.layout.pp > 1;
       return shared(c) && (c.layout.tp > 1 || (more && !of_titan(m, c)));
     },
     ep_text},
    {"--ep N --world W, or --shard hsdp:M",
     "N must divide the ranks that one copy of the parameters is sharded over",
     "give an N that divides them",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && fsdp_shards(c) % c.layout.ep != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return ep_option(c) + " --world " + std::to_string(c.layout.world) + " --shard " +
              shard_option(c);
     }},
    {"--ep N that does not divide the experts, transformers' layers",
     "each rank has as many as every other (MoEParamShard)", "give an N that divides them",
     [](const ModelSpec& m, const StepConfig& c) {
       return shared(c) && m.moe && m.moe->experts % c.layout.ep != 0;
     },
     ep_text},
    {"--ep N --framework torchtitan, more ranks than experts, and a width that they do not divide",
     "each rank has a part of each of its experts' rows (fully_shard shards them along their "
     "second "
     "dimension, which it must divide)",
     "give a larger --ep, or --shard hsdp:M",
     [](const ModelSpec& m, const StepConfig& c) {
       return shared(c) && m.moe && of_titan(m, c) && cuts_unevenly(m, c);
     },
     ep_text},
    {"--ep N --batch B --seq S, tokens that do not spread evenly over the experts",
     "loads are planned balanced: each expert has as many tokens as every other",
     "give a --batch or --seq that does",
     [](const ModelSpec& m, const StepConfig& c) {
       return shared(c) && m.moe &&
              c.run.batch * c.run.seq / c.layout.cp * m.moe->top_k % m.moe->experts != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return ep_option(c) + " --batch " + std::to_string(c.run.batch) + " --seq " +
              std::to_string(c.run.seq);
     }},
    {"--ep N --capacity-factor F, transformers' layers",
     "its experts are planned with balanced loads", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && c.run.capacity_factor != 1.0;
     },
     ep_text},
    {"--ep N --clip-grad NORM, transformers' layers",
     "PyTorch's clip_grad_norm_ fails for gradients on meshes of different ranks, and the norm of "
     "each mesh, as transformers' Trainer takes it, is not planned",
     "leave --clip-grad out",
     [](const ModelSpec& m, const StepConfig& c) {
       return shared(c) && c.optimizer.clip_grad > 0 && !of_titan(m, c);
     },
     ep_text},
    {"--ep N --cuda-graph", "the host waits for how many rows come, which is not captured",
     "use --cuda-graph off",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && c.runtime.cuda_graph != CudaGraph::off;
     },
     ep_text},
    {"--ep N without --balanced-routing, ac-trainer",
     "the trainer's tensors have the sizes that are planned, of balanced loads",
     "add --balanced-routing",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && trained(c) && !c.run.balanced_routing;
     },
     ep_text},
    {"--ep N, ac-trainer on a GPU", "its all-to-all was not run there", "use --gpu cpu",
     [](const ModelSpec&, const StepConfig& c) {
       return shared(c) && trained(c) && c.device.gpu != "cpu";
     },
     [](const ModelSpec&, const StepConfig& c) { return ep_option(c) + " --gpu " + c.device.gpu; }},
    {"--balanced-routing, PyTorch",
     "transformers' routers have no such switch; plans of --ep assume balanced loads anyway",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return c.run.balanced_routing && !trained(c); }},
    {"--balanced-routing, a model without experts, or with routers of other kinds",
     "the trainer has it of mixtral, qwen3_moe and olmoe", "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.run.balanced_routing &&
              !(m.moe && is_compared(m) && m.moe->shared_intermediate == 0);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--balanced-routing for " + m.family; }},
};

std::string asked(const ModelSpec& m) { return m.family + " with output_router_logits"; }

constexpr Exclusion of_balance[] = {
    {"--router-aux-loss on, a model without that loss", "its class in transformers adds none",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.task.router_loss == RouterLoss::on &&
              !(m.moe && model::class_facts(m.family).balances_experts);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--router-aux-loss on for " + m.family; }},
    {"--framework trl, a mixture whose configuration has no num_experts",
     "TRL 1.16 reads num_experts for the routers' auxiliary loss: the step ends in an "
     "AttributeError",
     "use --router-aux-loss off (router_aux_loss_coef=0.0)",
     [](const ModelSpec& m, const StepConfig& c) {
       return model::trl_balances_experts(m, c) && (m.moe->sparse_mixer || m.moe->every_expert);
     },
     [](const ModelSpec& m, const StepConfig&) { return "TRL's trainers for " + m.family; }},
    {"a configuration with output_router_logits, --task other than sft",
     "what each forward then returns, a reference's too, is not planned yet",
     "set it to false in config.json: TRL's trainers ask for the routers' logits by themselves",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.moe && m.moe->returns_logits && !c.task.supervised();
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--task ") + to_option(c.task.kind) + " for " + asked(m);
     }},
    {"the routers' auxiliary loss, --framework other than hf, hf-trainer and trl",
     "the routers' auxiliary loss is not planned in this loop yet",
     "leave --router-aux-loss on out, or set output_router_logits to false in config.json",
     [](const ModelSpec& m, const StepConfig& c) {
       const std::string& f = c.runtime.framework;
       return model::model_balances_experts(m, c) && f != "hf" && f != "hf-trainer";
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--framework " + c.runtime.framework + " for " + asked(m);
     }},
    {"the routers' auxiliary loss, --loss other than ce",
     "the routers' auxiliary loss is not planned beside it yet", "use --router-aux-loss off",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool whole = c.memory.loss == LossKind::ce || c.memory.loss == LossKind::ce_no_upcast;
       return model::model_balances_experts(m, c) && !whole;
     },
     [](const ModelSpec& m, const StepConfig&) { return "this loss for " + asked(m); }},
    {"the routers' auxiliary loss, ac-trainer", "the trainer has no auxiliary loss",
     "use --router-aux-loss off, or plan it instead",
     [](const ModelSpec& m, const StepConfig& c) {
       return model::model_balances_experts(m, c) && trained(c);
     },
     [](const ModelSpec& m, const StepConfig&) { return "ac-trainer for " + asked(m); }},
    {"the routers' auxiliary loss, --kernels compiled, --pp P or --ep N",
     "its logits beside a graph, a stage or an all-to-all are not planned yet",
     "use --router-aux-loss off",
     [](const ModelSpec& m, const StepConfig& c) {
       return model::balances_experts(m, c) &&
              (c.memory.kernels == Kernels::compiled || c.layout.pp > 1 || c.layout.ep > 1);
     },
     [](const ModelSpec& m, const StepConfig&) { return "the auxiliary loss of " + m.family; }},
};

}  // namespace

extern const ExclusionGroup expert_exclusions, balance_exclusions;
const ExclusionGroup balance_exclusions{"routers' auxiliary loss", of_balance, Of::transformers};
const ExclusionGroup expert_exclusions{"--ep", of_experts, Of::transformers};

}  // namespace ac_advisor::passes
