// What is planned of --position-ids, and what is not.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "passes/lowering/batch_positions.hpp"

namespace ac_advisor::passes {

using model::ModelSpec;

bool takes_rotary_positions(const ModelSpec& m) {
  return m.position_table == 0 && !m.masked_positions && !m.alibi && !m.measured_positions &&
         !m.position_scaled_queries && m.position_grids == model::PositionGrids::one &&
         m.rotation != model::Rotation::table && !m.complex_rotation();
}

namespace {

bool given(const StepConfig& c) { return c.run.position_ids; }

constexpr Exclusion of_positions[] = {
    {"--position-ids, positions other than a rotary table's of the batch",
     "what other positions make of those of a batch is not planned yet",
     "leave it out, or plan a model with Llama's positions",
     [](const ModelSpec& m, const StepConfig& c) {
       return given(c) && c.run.transformer_impl == TransformerImpl::hf && m.layers > 0 &&
              !takes_rotary_positions(m);
     },
     [](const ModelSpec& m, const StepConfig&) { return "--position-ids for " + m.family; }},
    {"--position-ids --packing DOCS", "a packed row always carries its positions",
     "leave --position-ids out",
     [](const ModelSpec&, const StepConfig& c) { return given(c) && c.run.packing > 0; }},
    {"--position-ids --images N", "a wrapper's positions with images are not planned",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) { return given(c) && c.run.images > 0; }},
    {"--position-ids, ac-trainer", "the trainer's batches are tokens and labels",
     "plan it instead, or measure without --position-ids",
     [](const ModelSpec&, const StepConfig& c) {
       return given(c) && c.runtime.kind == Runtime::ac_trainer;
     },
     [](const ModelSpec&, const StepConfig&) { return std::string("--position-ids"); }},
};

}  // namespace

extern const ExclusionGroup position_exclusions;
const ExclusionGroup position_exclusions{"position-ids", of_positions};

}  // namespace ac_advisor::passes
