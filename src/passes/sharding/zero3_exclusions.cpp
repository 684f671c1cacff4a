// What of DeepSpeed's ZeRO 3 is not planned.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool used(const StepConfig& c) { return c.layout.zero3(); }

constexpr Exclusion table[] = {
    {"--shard zero3, --loss other than ce, ce-no-upcast or tiled",
     "how a loss that reads the head's weight has it gathered is not planned but for TRL's",
     "use --loss ce or tiled, or --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.memory.loss != LossKind::ce && c.memory.loss != LossKind::ce_no_upcast &&
              c.memory.loss != LossKind::tiled;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--shard zero3 --loss " + loss_option(c);
     }},
    {"--shard zero3, run by the trainer", "planned for PyTorch, not run by the trainer",
     "use --shard fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return used(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
};

}  // namespace

extern const ExclusionGroup zero3_exclusions;
const ExclusionGroup zero3_exclusions{"zero3", table};

}  // namespace ac_advisor::passes
