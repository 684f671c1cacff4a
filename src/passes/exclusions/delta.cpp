// What blocks with a gated delta net cannot be combined with, and why.
#include <algorithm>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

constexpr std::int64_t chunk_tokens = 64, most_chunks = 65536;

bool used(const ModelSpec& m) { return m.delta.has_value(); }

/// Of all blocks: each chunk's products are written out, one after another.
std::int64_t chunks(const ModelSpec& m, const StepConfig& c) {
  return std::count(m.delta_block.begin(), m.delta_block.end(), true) *
         (c.run.seq / chunk_tokens + 1);
}

constexpr Exclusion of_delta[] = {
    {"--packing DOCS, gated delta nets",
     "transformers cannot keep documents apart in them without flash-linear-attention, whose "
     "kernels are not planned",
     "leave --packing out",
     [](const ModelSpec& m, const StepConfig& c) { return used(m) && c.run.packing > 0; },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--packing " + std::to_string(c.run.packing) + " for " + m.family;
     }},
    {"--seq S, gated delta nets of more than 65536 chunks of 64 tokens in all blocks",
     "each chunk's products are planned one after another", "give a shorter --seq",
     [](const ModelSpec& m, const StepConfig& c) { return used(m) && chunks(m, c) > most_chunks; },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--seq " + std::to_string(c.run.seq) + " for " + m.family;
     }},
    {"--compute-dtype fp32, gated delta nets", "casts to fp32 that are none then are not planned",
     "use bf16",
     [](const ModelSpec& m, const StepConfig& c) {
       return used(m) && c.precision.compute_dtype == DType::f32;
     },
     [](const ModelSpec& m, const StepConfig&) { return "--compute-dtype fp32 for " + m.family; }},
    {"--gpu cpu, gated delta nets", "the scratch of a CPU's convolution and solver is not planned",
     "choose a GPU",
     [](const ModelSpec& m, const StepConfig& c) { return used(m) && c.device.gpu == "cpu"; },
     [](const ModelSpec& m, const StepConfig&) { return "--gpu cpu for " + m.family; }},
    {"--kernels fused or compiled, gated delta nets",
     "fused kernels and compiled blocks are not planned beside them", "use --kernels eager",
     [](const ModelSpec& m, const StepConfig& c) {
       return used(m) && c.memory.kernels != Kernels::eager;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--kernels ") + to_option(c.memory.kernels) + " for " + m.family;
     }},
    {"--pp N, --cuda-graph or --offload activations, gated delta nets",
     "none of them is planned beside them", "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return used(m) && (c.layout.pp > 1 || c.runtime.cuda_graph != CudaGraph::off ||
                          c.memory.offload == Offload::activations);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       const char* const option = c.layout.pp > 1 ? "--pp N"
                                  : c.memory.offload == Offload::activations
                                      ? "--offload activations"
                                      : "--cuda-graph";
       return std::string(option) + " for " + m.family;
     }},
};

}  // namespace

extern const ExclusionGroup delta_exclusions;
const ExclusionGroup delta_exclusions{"gated delta nets", of_delta};

}  // namespace ac_advisor::passes
