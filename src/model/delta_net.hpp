#pragma once

#include "family.hpp"
#include "fields.hpp"

namespace ac_advisor::model {

/// Which blocks have a gated delta net in attention's place, and its sizes. Throws UserError.
void read_delta_net(const Family& family, const Fields& fields, ModelSpec& spec);

}  // namespace ac_advisor::model
