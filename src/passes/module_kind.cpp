#include "ac_advisor/passes/module_kind.hpp"

#include <algorithm>
#include <initializer_list>

namespace ac_advisor::passes {

ir::Module module_of(ModuleKind kind, ir::Module leaf) {
  using enum ir::Module;
  const auto one_of = [&](std::initializer_list<ir::Module> list) {
    return std::find(list.begin(), list.end(), leaf) == list.end() ? root : leaf;
  };
  switch (kind) {
    case ModuleKind::attention_core:
      return one_of({attention_core});
    case ModuleKind::norm:
      return one_of({norm1, q_norm, k_norm, q_a_norm, kv_a_norm, post_attention_norm, norm2,
                     post_mlp_norm, final_norm, gated_norm});
    case ModuleKind::projection:
      return one_of({q_proj, k_proj, v_proj, qkv_proj, q_a_proj, q_b_proj, kv_a_proj, kv_b_proj,
                     ba_proj, z_proj, b_proj, a_proj, o_proj});
    case ModuleKind::mlp:
      return ir::submodule_of(leaf) == mlp ? mlp : root;
    case ModuleKind::embedding:
      return one_of({embed});
    case ModuleKind::loss:  // the output layer makes the logits, and is checkpointed with them
      return leaf == lm_head || leaf == loss ? loss : root;
  }
  return root;
}

}  // namespace ac_advisor::passes
