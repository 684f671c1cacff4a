#pragma once

#include "ac_advisor/model/spec.hpp"
#include "family.hpp"
#include "fields.hpp"

namespace ac_advisor::model {

/// Fills `moe` and `sparse_block` by the family's rule; both stay empty where no block has experts.
void read_experts(const Family& family, const Fields& fields, ModelSpec& spec);

}  // namespace ac_advisor::model
