#pragma once

#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::advise {

/// Options by hand, settled for a model.
struct Resolved {
  /// What an imported graph was captured with and no option by hand says (batch, sequence, dtype),
  /// those by hand, then what a preset's values fell back to.
  OptionList options;
  OptionList derived;  ///< what the preset's framework makes of the model: Liger's chunk
  StepConfig config;   ///< of both
  std::vector<std::string> notes;  ///< a sentence for each that fell back
  /// The framework's own layers are not planned for this model: transformers' are, in its loop.
  bool others_layers = false;
};

/// `resolve_options`, and where the model cannot take a value that its framework's preset chose (a
/// backend of attention that cannot soft-cap), that option's default. Where the preset has Liger's
/// loss, its chunk is `liger_chunk`. What was given by hand is left for `validate` to refuse.
/// Throws UserError.
[[nodiscard]] Resolved resolve(const model::ModelSpec& model, const OptionList& options);

}  // namespace ac_advisor::advise
