// What documents packed into one row cannot be combined with, and why.
#include <algorithm>
#include <string>

#include "ac_advisor/ir/shape.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "passes/lowering/batch_positions.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

constexpr std::int64_t most_documents = 65535;

bool packs(const StepConfig& c) { return c.run.packing > 0; }
bool trained(const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }
std::string packing(const StepConfig& c) { return "--packing " + std::to_string(c.run.packing); }
bool of_automodel(const StepConfig& c) { return c.runtime.framework == "automodel"; }
std::string packing_and_parts(const ModelSpec&, const StepConfig& c) {
  return packing(c) + (c.layout.tp > 1 ? " --tp " + std::to_string(c.layout.tp)
                                       : " --pp " + std::to_string(c.layout.pp));
}
std::string packing_of_model(const ModelSpec& m, const StepConfig& c) {
  return packing(c) + " for " + m.family;
}

constexpr Exclusion of_packing[] = {
    {"--packing DOCS", "documents are from 0 (not packed) to 65535", "give their number, such as 8",
     [](const ModelSpec&, const StepConfig& c) {
       return c.run.packing < 0 || c.run.packing > most_documents;
     },
     [](const ModelSpec&, const StepConfig& c) { return packing(c); }},
    {"--packing DOCS, more documents than tokens", "a row has --batch times --seq tokens",
     "give at most that many",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && c.run.packing > ir::checked_mul(c.run.batch, c.run.seq);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return packing(c) + " --batch " + std::to_string(c.run.batch) + " --seq " +
              std::to_string(c.run.seq);
     }},
    {"--packing DOCS, positions other than a rotary table's of the batch",
     "positions that restart are planned for rotary tables alone",
     "leave --packing out, or plan a model with Llama's positions",
     [](const ModelSpec& m, const StepConfig& c) {
       return packs(c) && (!takes_rotary_positions(m) || m.no_packed_check);
     },
     packing_of_model},
    {"--packing DOCS --attn cudnn, efficient, math or flash1",
     "flash is flash_attn_varlen_func; auto and eager are given a mask of documents",
     "use --attn flash, auto or eager",
     [](const ModelSpec&, const StepConfig& c) {
       const Attention a = c.run.attention;
       return packs(c) && a != Attention::automatic && a != Attention::flash &&
              a != Attention::eager;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return packing(c) + " --attn " + to_option(c.run.attention);
     }},
    {"--packing DOCS --attn flash, stablelm and nemotron",
     "their layers do not hand cu_seq_lens on to attention, which infers them from positions each "
     "time: not planned yet",
     "use --attn auto",
     [](const ModelSpec& m, const StepConfig& c) {
       return packs(c) && c.run.attention == Attention::flash &&
              (m.family == "stablelm" || m.family == "nemotron");
     },
     packing_of_model},
    {"--packing DOCS --attn flash --compute-dtype fp32",
     "flash_attn_varlen_func takes bf16 and fp16 alone", "use --autocast, or --attn auto",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && !trained(c) && c.run.attention == Attention::flash &&
              !c.precision.autocast && c.precision.compute_dtype == DType::f32;
     }},
    {"--packing DOCS --gpu cpu",
     "the scratch of a CPU's attention with a mask of documents is not planned",
     "plan a GPU, or measure it: the trainer's own step is planned",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && !trained(c) && c.device.gpu == "cpu";
     },
     [](const ModelSpec&, const StepConfig& c) { return packing(c) + " --gpu cpu"; }},
    {"--packing DOCS --tp T --attn auto",
     "transformers makes the mask of documents along the hidden states, of which each rank has a "
     "part",
     "use --attn flash",
     [](const ModelSpec&, const StepConfig& c) {
       return c.run.packing > 1 && c.layout.tp > 1 && c.run.attention == Attention::automatic;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return packing(c) + " --tp " + std::to_string(c.layout.tp) + " --attn auto";
     }},
    {"--packing DOCS --framework automodel, --attn other than flash",
     "it packs with flash_attention_2 alone (_transformers/kernel_patches.py, "
     "_apply_preload_overrides)",
     "use --attn flash",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && of_automodel(c) && c.run.attention != Attention::flash;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return packing(c) + " --framework automodel --attn " + to_option(c.run.attention);
     }},
    {"--packing 1 --framework automodel",
     "each block finds but one document and runs flash_attn_func on it: not planned yet",
     "leave --packing out, or give 2 or more",
     [](const ModelSpec&, const StepConfig& c) { return c.run.packing == 1 && of_automodel(c); }},
    {"--packing DOCS --tp T or --pp N, ac-trainer", "planned for PyTorch, not run by the trainer",
     "leave --packing out",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && trained(c) && (c.layout.tp > 1 || c.layout.pp > 1);
     },
     packing_and_parts},
    {"--packing DOCS --cuda-graph",
     "where documents begin and how long the longest is are the host's, which a graph would repeat",
     "leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"--packing DOCS --images N", "images of several documents are not planned yet",
     "use --images 0",
     [](const ModelSpec&, const StepConfig& c) { return packs(c) && c.run.images > 0; }},
    {"--packing DOCS, ac-trainer on a GPU",
     "the trainer's attention within documents is the CPU's alone",
     "use --gpu cpu, or measure without --packing",
     [](const ModelSpec&, const StepConfig& c) {
       return packs(c) && trained(c) && c.device.gpu != "cpu";
     },
     [](const ModelSpec&, const StepConfig& c) { return packing(c); }},
};

}  // namespace

extern const ExclusionGroup packing_exclusions;
const ExclusionGroup packing_exclusions{"packing", of_packing};

}  // namespace ac_advisor::passes
