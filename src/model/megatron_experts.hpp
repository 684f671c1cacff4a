#pragma once

#include "ac_advisor/model/spec.hpp"
#include "fields.hpp"

namespace ac_advisor::model {

/// Megatron-LM's arguments of a mixture of experts: num_experts, moe_router_topk, … (core_v0.16,
/// megatron/training/arguments.py, _add_moe_args). Fills `moe` and `sparse_block`; both stay empty
/// without experts. Throws UserError naming the field, for what is not planned too.
void read_megatron_experts(const Fields& fields, ModelSpec& spec);

}  // namespace ac_advisor::model
