// What a pipeline is not planned with.
#include <algorithm>
#include <numeric>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/pipeline.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

/// torch/distributed/pipelining/schedules.py, v2.11: _add_unshard_reshard, max_active_stages
constexpr std::int64_t most_gathered_stages = 3;

bool piped(const StepConfig& c) { return c.layout.pp > 1; }
std::string pp_option(const StepConfig& c) { return "--pp " + std::to_string(c.layout.pp); }
std::string with_schedule(const StepConfig& c) {
  return pp_option(c) + " --pp-schedule " + pp_schedule_option(c);
}
bool split(const StepConfig& c) { return piped(c) && splits_backwards(c.layout.pp_schedule); }
std::string with_schedule_alone(const ModelSpec&, const StepConfig& c) { return with_schedule(c); }
std::string with_accum(const ModelSpec&, const StepConfig& c) {
  return with_schedule(c) + " --grad-accum " + std::to_string(c.run.grad_accum);
}
std::string with_model(const ModelSpec& m, const StepConfig& c) {
  return pp_option(c) + " for " + m.family;
}
std::string with_layers(const ModelSpec& m, const StepConfig& c) {
  std::string text = with_schedule(c);
  if (!c.layout.pp_layers.empty()) text += " --pp-layers " + pp_layers_text(c);
  return text + ": " + std::to_string(c.layout.pp * c.layout.pp_chunks) + " stages of " +
         std::to_string(m.layers) + " blocks";
}

/// --pp-layers fits the model: one number per stage, their sum the model's, none 0 but at the ends.
bool fits(const ModelSpec& m, const StepConfig& c) {
  const std::vector<std::int64_t>& layers = c.layout.pp_layers;
  if (static_cast<std::int64_t>(layers.size()) != c.layout.pp * c.layout.pp_chunks) return false;
  for (std::size_t i = 1; i + 1 < layers.size(); ++i)
    if (layers[i] == 0) return false;
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == m.layers;
}

/// Some rank's stages have no layer with adapters.
bool trains_nothing(const ModelSpec& m, const StepConfig& c) {
  if (!piped(c) || !adapts_layers(c) || c.layout.pp_rank >= c.layout.pp) return false;
  const std::vector<StageBlocks> all = pipeline_stages(m, c);
  PipelineRank rank = pipeline_rank(c);
  const auto adapted = [&](const StageBlocks& stage) {
    for (std::int64_t block = stage.first; block < stage.end; ++block)
      if (!adapted_widths(m, c, static_cast<std::int16_t>(block)).empty()) return true;
    return false;
  };
  for (rank.rank = 0; rank.rank < rank.ranks; ++rank.rank) {
    bool any = false;
    for (std::int64_t chunk = 0; chunk < rank.chunks && !any; ++chunk) {
      const auto stage = static_cast<std::size_t>(rank.stage(chunk));
      any = stage < all.size() && adapted(all[stage]);
    }
    if (!any) return true;
  }
  return false;
}

/// A stage needs more than the hidden states of the one before.
bool needs_more(const ModelSpec& m) {
  return m.position_table > 0 || m.kv_sharing || m.tower || m.graph != nullptr ||
         m.embedding_dropout > 0.0;
}

constexpr Exclusion all_exclusions[] = {
    {"--pp N --world W",
     "the world must be divisible by N (times T of --tp): each stage has as many ranks",
     "use a multiple of it",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.world % (c.layout.tp * c.layout.pp) != 0;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return pp_option(c) + " --world " + std::to_string(c.layout.world);
     }},
    {"--pp N --grad-accum M, M below N",
     "a pipeline's micro-batches are --grad-accum, and N stages are filled by N or more",
     "give --grad-accum of at least N",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.run.grad_accum < c.layout.pp;
     },
     with_accum},
    {"--pp N --pp-schedule interleaved:V or zb1 --grad-accum M, no multiple of its rounds",
     "the schedule runs M / N rounds of equal length (rounded down)",
     "give --grad-accum that is a multiple of N",
     [](const ModelSpec&, const StepConfig& c) {
       const bool rounds = c.layout.pp_schedule == PipelineSchedule::interleaved ||
                           c.layout.pp_schedule == PipelineSchedule::zero_bubble;
       return piped(c) && rounds && c.run.grad_accum % pipeline_rank(c).rounds() != 0;
     },
     with_accum},
    {"--pp N --pp-schedule dualpipev --grad-accum M, M below 2 N",
     "ScheduleDualPipeV needs as many micro-batches as there are stages, two per rank",
     "give --grad-accum of at least 2 N, or use zbv",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.pp_schedule == PipelineSchedule::dual_pipe_v &&
              c.run.grad_accum < 2 * c.layout.pp;
     },
     with_accum},
    {"--pp N of a model of too few blocks",
     "the embedding and the head count as a block each, and each stage has one or more",
     "use fewer stages, or say with --pp-layers which stage has how many",
     [](const ModelSpec& m, const StepConfig& c) {
       return piped(c) && c.layout.pp_layers.empty() && pipeline_stages(m, c).empty();
     },
     with_layers},
    {"--pp-layers of another sum or number",
     "it says the blocks of each stage (N, times the V of interleaved:V and zb1:V, times two of "
     "zbv and dualpipev), 0 for the first or "
     "the last at most, and their sum is the model's",
     "give one number per stage",
     [](const ModelSpec& m, const StepConfig& c) {
       return piped(c) && !c.layout.pp_layers.empty() && !fits(m, c);
     },
     with_layers},
    {"--pp-rank R, R of N or more", "a pipeline's ranks are 0 to N - 1", "give one of those",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.pp_rank >= c.layout.pp;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return pp_option(c) + " --pp-rank " + std::to_string(c.layout.pp_rank);
     }},
    {"--pp --framework torchtitan, a model with tied embeddings",
     "the first and the last stage would train a copy of the weight each: TorchTitan refuses it",
     "use --framework hf, where the gradients of the copies are added, or --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) {
       return piped(c) && m.tied_embeddings && c.runtime.framework == "torchtitan";
     },
     with_model},
    {"--pp, a model whose blocks need more than hidden states",
     "stages hand on hidden states alone: learned positions, keys and values shared between "
     "blocks, an image encoder, dropout of the embedding and imported graphs are not planned",
     "use --shard fsdp2 alone",
     [](const ModelSpec& m, const StepConfig& c) { return piped(c) && needs_more(m); }, with_model},
    {"--pp, --shard ddp or zeroN",
     "torch.distributed.pipelining composes with fully_shard; how DDP's buckets and DeepSpeed's "
     "partitions wait for the last micro-batch is not planned",
     "use --shard fsdp2 or hsdp:N, or --shard none with a world of as many ranks as stages",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.shard != Sharding::none && !c.layout.gathers();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return pp_option(c) + " --shard " + shard_option(c);
     }},
    {"--pp-schedule interleaved:V or zb1:V, V above 3, --shard fsdp2 or hsdp:N",
     "the schedule keeps three stages of a rank gathered and gathers the others in turn, which is "
     "not planned yet",
     "use two or three stages per rank",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.gathers() && c.layout.pp_chunks > most_gathered_stages;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with_schedule(c) + " --shard " + shard_option(c);
     }},
    {"--pp, a loss other than ce, ce-no-upcast or ce-compiled",
     "the schedule's loss is given the last stage's logits", "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       const LossKind loss = c.memory.loss;
       return piped(c) && loss != LossKind::ce && loss != LossKind::ce_no_upcast &&
              loss != LossKind::ce_compiled;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return pp_option(c) + " --loss " + loss_option(c);
     }},
    {"--pp --autocast or --output-dtype fp32",
     "the dtypes of what stages send each other are then not those of the parameters",
     "leave them out",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && (c.precision.autocast || c.memory.wide_output);
     }},
    {"--pp --ac budget:SIZE", "each stage would be solved by itself, which is not planned yet",
     "use full, selective or every:K",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.memory.ac == AcMode::budget;
     }},
    {"--pp --adapter METHOD", "methods beside LoRA are not planned in stages yet",
     "use --lora RANK",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.adapters.of_another_method();
     }},
    {"--pp --lora-targets NAMES, a rank whose stages have none of them",
     "its optimizer would be given nothing to train, which torch.optim refuses",
     "name layers of each stage's blocks, such as --lora-targets all-linear", trains_nothing,
     [](const ModelSpec&, const StepConfig& c) {
       return with_schedule(c) + " --lora-targets " + c.adapters.targets;
     }},
    {"--pp --lora, adapters of experts or their router",
     "PEFT parametrizes experts' modules in each forward; what that does in stages is not planned",
     "adapt attention alone: --lora-targets q_proj,k_proj,v_proj,o_proj",
     [](const ModelSpec& m, const StepConfig& c) {
       return piped(c) && adapted_experts(m, c).any();
     },
     with_model},
    {"--pp --lora --quantize int8",
     "LLM.int8()'s function keeps its input as an attribute of its context, which lives as long as "
     "the schedule has the losses: not planned yet",
     "use --quantize nf4",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.adapters.quantize == Quantization::int8;
     }},
    {"--pp --no-sync", "the schedule reduces gradients after the last micro-batch by itself",
     "leave --no-sync out",
     [](const ModelSpec&, const StepConfig& c) { return piped(c) && c.layout.no_sync; }},
    {"--pp --cuda-graph", "sends and receives are not captured", "use --cuda-graph off",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"--pp-schedule zb1, zbv or dualpipev, --ac of any kind",
     "autograd runs a backward in two parts for each parameter by itself, and non-reentrant "
     "checkpoints recompute the whole block for each of these runs: not planned",
     "use --ac none, or --pp-schedule 1f1b",
     [](const ModelSpec&, const StepConfig& c) { return split(c) && c.memory.ac != AcMode::none; },
     [](const ModelSpec&, const StepConfig& c) {
       return with_schedule(c) + " --ac " + ac_option(c);
     }},
    {"--pp-schedule zb1, zbv or dualpipev, --kernels fused or compiled",
     "PyTorch refuses compiled stages (_check_torch_compile_compatibility); fused kernels' "
     "functions make both gradients at once, twice, which is not planned",
     "use --kernels eager, or --pp-schedule 1f1b",
     [](const ModelSpec&, const StepConfig& c) {
       return split(c) && c.memory.kernels != Kernels::eager;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with_schedule(c) + " --kernels " + to_option(c.memory.kernels);
     }},
    {"--pp-schedule zb1, zbv or dualpipev, --cp", "a ring's backward in two parts is not planned",
     "leave one of them out, or use --pp-schedule 1f1b",
     [](const ModelSpec&, const StepConfig& c) { return split(c) && c.layout.cp > 1; },
     with_schedule_alone},
    {"--pp-schedule zb1, zbv or dualpipev, --tp",
     "how DTensors' gradients wait for the weights' part is not planned yet",
     "leave one of them out, or use --pp-schedule 1f1b",
     [](const ModelSpec&, const StepConfig& c) { return split(c) && c.layout.tp > 1; },
     with_schedule_alone},
    {"--pp-schedule zb1, zbv or dualpipev, a mixture of experts, delta nets, LayerNorm or FP8",
     "a backward in two parts of such layers is not planned", "use --pp-schedule 1f1b",
     [](const ModelSpec& m, const StepConfig& c) {
       return split(c) &&
              (m.moe || m.norm == model::Norm::layer || m.delta || c.precision.float8());
     },
     [](const ModelSpec& m, const StepConfig& c) { return with_schedule(c) + " for " + m.family; }},
    {"--pp-schedule zbv or dualpipev, a model with tied embeddings",
     "the first and the last stage are of one rank, whose two copies nobody adds up",
     "use 1f1b, interleaved:V or zb1",
     [](const ModelSpec& m, const StepConfig& c) {
       return piped(c) && is_v_shaped(c.layout.pp_schedule) && m.tied_embeddings;
     },
     [](const ModelSpec& m, const StepConfig& c) { return with_schedule(c) + " for " + m.family; }},
    {"--pp-schedule zb1 --framework torchtitan",
     "TorchTitan 0.2.2 has two or more stages per rank in schedules of several",
     "use zb1:2, or zbv",
     [](const ModelSpec&, const StepConfig& c) {
       return piped(c) && c.layout.pp_schedule == PipelineSchedule::zero_bubble &&
              c.layout.pp_chunks == 1 && c.runtime.framework == "torchtitan";
     },
     with_schedule_alone},
    {"--pp-schedule zb1, zbv or dualpipev, ac-trainer",
     "planned for PyTorch, not run by the trainer",
     "plan it instead, or measure with --pp-schedule 1f1b or interleaved:V",
     [](const ModelSpec&, const StepConfig& c) {
       return split(c) && c.runtime.kind == Runtime::ac_trainer;
     },
     with_schedule_alone},
    // Last: a preset that is in the way of another row is not taken for this one.
    {"--pp --hold-output",
     "schedule.step(return_outputs=True) keeps the logits of all micro-batches and copies them "
     "into one tensor, which is not planned yet",
     "use --no-hold-output: return_outputs=False, as TorchTitan does",
     [](const ModelSpec&, const StepConfig& c) { return piped(c) && c.memory.hold_output; }},
};

}  // namespace

extern const std::span<const Exclusion> exclusions_of_pipeline;
const std::span<const Exclusion> exclusions_of_pipeline = all_exclusions;

}  // namespace ac_advisor::passes
