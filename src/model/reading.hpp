#pragma once

#include "ac_advisor/model/spec.hpp"
#include "fields.hpp"
#include "found_config.hpp"

namespace ac_advisor::model {

/// Fills `spec.reading` with what the file says of its weights and is not planned: their type,
/// their quantization, another head than a language model's, a kind of rotary scaling that nobody
/// knows.
void read_remarks(const Fields& fields, ModelSpec& spec);
/// The type of the published weights, where it is told.
void read_dtype(const Fields& fields, ModelSpec& spec);
/// What a configuration says of the published weights, and of its positions, for the graph that was
/// captured of it. Throws UserError.
void read_published(const FoundConfig& config, ModelSpec& spec);

}  // namespace ac_advisor::model
