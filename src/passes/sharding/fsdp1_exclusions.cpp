// What FSDP1 cannot be combined with, and why.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool used(const StepConfig& c) { return c.layout.shard == Sharding::fsdp1; }

bool in_fp16(const StepConfig& c) {
  return c.precision.compute_dtype == DType::f16 || c.precision.param_dtype == DType::f16;
}

constexpr Exclusion of_fsdp1[] = {
    {"--shard fsdp1, an imported graph or a model with an encoder of images",
     "flat parameters are planned of text models of a configuration alone", "use --shard fsdp2",
     [](const ModelSpec& m, const StepConfig& c) { return used(c) && (m.graph || m.tower); }},
    {"--shard fsdp1, gated delta nets",
     "their parameters in fp32 beside others in one flat tensor are not planned",
     "use --shard fsdp2",
     [](const ModelSpec& m, const StepConfig& c) { return used(c) && m.delta; }},
    {"--shard fsdp1 --tp, --cp or --ep",
     "flat parameters of parts of layers are not planned, nor used by any preset's framework",
     "use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && (c.layout.tp > 1 || c.layout.cp > 1 || c.layout.expert_ranks() > 1);
     }},
    {"--shard fsdp1 --lora",
     "frozen and trained parameters of one unit share a flat gradient, or PEFT's policy makes "
     "units of its own: not planned yet",
     "use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.adapters.used(); }},
    {"--shard fsdp1, checkpoints around several blocks",
     "the units' hooks would run again in backward: not planned yet",
     "use --ac full, every:K or selective, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && (c.memory.ac == AcMode::grouped || c.memory.ac == AcMode::sqrt);
     },
     [](const ModelSpec&, const StepConfig& c) { return "--shard fsdp1 --ac " + ac_option(c); }},
    {"--shard fsdp1, fp16 or --grad-scaler",
     "its ShardedGradScaler reduces what it finds by rules of its own: not planned yet",
     "use bf16, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && (in_fp16(c) || c.optimizer.grad_scaler);
     }},
    {"--shard fsdp1 --ema", "an average of flat parameters is not planned yet",
     "leave --ema out, or use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.optimizer.ema; }},
    {"--shard fsdp1 --offload parameters --grad-accum N, N above 1, without --no-sync",
     "what a micro-batch reduces overwrites on the host what those before it reduced: "
     "FullyShardedDataParallel does not accumulate there",
     "use --no-sync, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.offload == Offload::parameters && c.run.grad_accum > 1 &&
              !c.layout.no_sync;
     }},
    {"--shard fsdp1, ac-trainer", "planned for PyTorch, not run by the trainer",
     "use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--shard fsdp1 --gpu cpu", "streams and blocks are a GPU's", "choose a GPU",
     [](const ModelSpec&, const StepConfig& c) { return used(c) && c.device.gpu == "cpu"; }},
};

}  // namespace

extern const ExclusionGroup fsdp1_exclusions;
const ExclusionGroup fsdp1_exclusions{"fsdp1", of_fsdp1};

}  // namespace ac_advisor::passes
