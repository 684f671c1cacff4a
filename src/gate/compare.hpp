#pragma once

#include <vector>

#include "ac_advisor/gate/baseline.hpp"
#include "ac_advisor/gate/verdict.hpp"

namespace ac_advisor::gate {

/// What differs in the fingerprints, the user's own fields and options first, without what only
/// follows from them. Empty: the figures can be compared.
[[nodiscard]] std::vector<profile::FieldChange> fingerprint_changes(const Baseline& base,
                                                                    const Baseline& now);
/// The same for two lists of resolved fields, in alphabetical order.
[[nodiscard]] std::vector<profile::FieldChange> field_changes(
    const std::vector<profile::Field>& base, const std::vector<profile::Field>& now);

/// Which category and module (or phase) grew most; without a baseline: which is largest.
void name_growth(const Baseline* base, const Baseline& now, Figure figure, Cause& cause);

/// "--grad-accum" of the field "grad_accum"; the field itself where no option sets it.
[[nodiscard]] std::string option_of_field(const std::string& field);

}  // namespace ac_advisor::gate
