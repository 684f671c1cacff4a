#pragma once

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {

/// Every combination that `advise` tries for the tiny model on one GPU.
inline advise::Sweep small_sweep(const OptionList& options = {}) {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const StepConfig base = resolve_options(options);
  return advise::sweep(model, base, advise::default_space(model, base));
}

}  // namespace ac_advisor::test
