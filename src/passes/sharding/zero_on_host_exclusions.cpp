// What of DeepSpeed's optimizer and parameters on the host is not planned.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "zero_on_host.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

std::string with_offload(const StepConfig& c) {
  return std::string("--offload ") + to_option(c.memory.offload) + " --shard " + shard_option(c);
}

constexpr Exclusion table[] = {
    {"--offload gradients --shard zero1, zero2 or zero3",
     "with DeepSpeed's offload_optimizer gradients leave the device in any case",
     "use --offload optimizer",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.zero() && c.memory.offload == Offload::gradients;
     },
     [](const ModelSpec&, const StepConfig& c) { return with_offload(c); }},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, an optimizer other than "
     "adamw",
     "steps of the others than DeepSpeedCPUAdam are not planned", "use --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return zero_on_host(c) && c.optimizer.kind != Optimizer::adamw;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with_offload(c) + " --optimizer " + to_option(c.optimizer.kind);
     }},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, ac-trainer or --gpu cpu",
     "planned for PyTorch on a GPU, not run by the trainer", "leave --offload out",
     [](const ModelSpec&, const StepConfig& c) {
       return zero_on_host(c) && (c.runtime.kind == Runtime::ac_trainer || c.device.gpu == "cpu");
     },
     [](const ModelSpec&, const StepConfig& c) { return with_offload(c); }},
};

}  // namespace

extern const ExclusionGroup zero_on_host_exclusions;
const ExclusionGroup zero_on_host_exclusions{"zero on the host", table};

}  // namespace ac_advisor::passes
