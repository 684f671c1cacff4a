#pragma once

#include <cstdint>
#include <string_view>

namespace ac_advisor::model {

/// Where a block registers its norms.
enum class NormOrder : std::uint8_t {
  last,        ///< after attention and MLP
  first,       ///< before both (gpt_neox)
  in_turn,     ///< each before what it norms (gpt2)
  after_each,  ///< each after what it norms (opt)
  between,     ///< both between attention and experts (granitemoe)
};

/// How experts are chosen, where it is otherwise than by a softmax in fp32 of the model's logits
/// and no field of MoeSpec says it.
enum class Router : std::uint8_t {
  usual,
  of_top,     ///< a softmax of the chosen logits, which are widened to fp32 (granitemoe)
  sigmoid,    ///< scores by sigmoid of widened logits, corrected, without groups (minimax_m2)
  fp32,       ///< its weight is in fp32, whatever the model's dtype is (hunyuan_v1_moe)
  corrected,  ///< the same, its scores corrected by a parameter that is not trained (ernie4_5_moe)
};

[[nodiscard]] constexpr bool in_fp32(Router router) {
  return router == Router::fp32 || router == Router::corrected;
}

/// What every token passes beside a mixture's experts, where it is without a gate of its own.
enum class SharedMlp : std::uint8_t {
  last,   ///< runs after the experts
  first,  ///< before the router
  fused,  ///< after the experts, gate and up by one projection (granitemoeshared)
};

/// What a family's classes do that no field of a configuration says. Parameters stand in the order
/// in which they are registered: in memory, in an optimizer's lists, in buckets and gathers.
struct ClassFacts {
  NormOrder norms = NormOrder::last;
  bool keys_first = false;       ///< k and v are registered before q
  bool heads_last = false;       ///< q, k and v come apart into heads once all are there
  bool output_first = false;     ///< the output's projection before that of q, k and v
  bool experts_first = false;    ///< experts before their router
  bool head_norm_first = false;  ///< the last norm before the blocks
  bool both_masks = false;       ///< of full attention and of a window, though no block is without
  bool idle_mask = false;        ///< of a window of no tokens, which no block takes
  bool names_routing =
      false;  ///< a block binds what routed its tokens where attention's weights were
  bool drops_cache = false;  ///< a cache that it was given is not returned without use_cache
  /// Its configuration's router_aux_loss_coef is not 0: TRL asks for the loss that balances
  /// experts.
  bool balances_experts = false;
  bool delta_apart = false;  ///< a delta net's gates and both rates have a projection each
  /// q's and k's norms follow the rotation (hunyuan_v1_dense).
  bool norms_after_rotation = false;
  bool widened_norm_weight = false;  ///< RMSNorm casts its weight to fp32 (helium)
  Router router = Router::usual;
  SharedMlp shared = SharedMlp::last;
  bool no_classifier = false;  ///< AutoModelForSequenceClassification has no class of it
};

/// transformers 5.23's, by the family's name.
[[nodiscard]] const ClassFacts& class_facts(std::string_view family);

}  // namespace ac_advisor::model
