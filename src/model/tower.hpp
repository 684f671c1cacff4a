#pragma once

#include <string_view>

#include "ac_advisor/model/spec.hpp"
#include "fields.hpp"

namespace ac_advisor::model {

/// Reads a multimodal wrapper's own fields, `outer`, after the decoder's: `spec.tower` gets what
/// its "vision_config" describes, `tied_embeddings` what the wrapper says. Throws UserError naming
/// the field, also for a wrapper or an encoder without a row in tower.cpp.
void read_wrapper(const Fields& outer, ModelSpec& spec);

/// The `model_type` of a wrapper's "text_config" that gives none; empty where no wrapper is known.
[[nodiscard]] std::string_view default_text_type(std::string_view wrapper);

}  // namespace ac_advisor::model
