// What is planned of PyTorch 2.11's steps and not of a later release's.
#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool later(const StepConfig& c) { return c.runtime.torch != TorchVersion::v2_11; }
std::string version(const StepConfig& c) {
  return std::string("--torch ") + ir::facts_of(c.runtime.torch).release;
}

constexpr Exclusion of_torch[] = {
    {"--torch 2.15 --gpu cpu", "its CPU kernels' scratch is not planned",
     "leave --torch out, or name a GPU",
     [](const ModelSpec&, const StepConfig& c) { return later(c) && c.device.gpu == "cpu"; },
     [](const ModelSpec&, const StepConfig& c) { return version(c) + " --gpu cpu"; }},
    {"--torch 2.15 --grad-compression HOW",
     "what the hooks of compressed gradients hold beside NCCL's new process group is not planned",
     "leave one of both out",
     [](const ModelSpec&, const StepConfig& c) {
       return later(c) && c.compression.kind != Compression::none;
     },
     [](const ModelSpec&, const StepConfig& c) { return version(c) + " --grad-compression"; }},
    {"--torch 2.15 --no-sync, gradients reduced in a wider dtype than they are computed in",
     "what FSDP2 keeps of gradients that wait to be widened is not planned",
     "leave --no-sync out, or reduce in the dtype that is computed in",
     [](const ModelSpec&, const StepConfig& c) {
       return later(c) && c.layout.no_sync && c.layout.gathers() &&
              c.precision.reduce_dtype != c.precision.compute_dtype;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return version(c) + " --no-sync --reduce-dtype " + to_option(c.precision.reduce_dtype);
     }},
    {"--torch 2.15 --cuda-graph HOW",
     "cuBLAS's workspaces, which are no longer kept, are not planned in a graph's pool",
     "leave one of both out",
     [](const ModelSpec&, const StepConfig& c) {
       return later(c) && c.runtime.cuda_graph != CudaGraph::off;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return version(c) + " --cuda-graph " + to_option(c.runtime.cuda_graph);
     }},
};

}  // namespace

extern const ExclusionGroup torch_exclusions;
const ExclusionGroup torch_exclusions{"--torch", of_torch};

}  // namespace ac_advisor::passes
