// axolotl's `rl: dpo, ipo, kto, orpo, simpo` (0.21.0): TRL 1.14.1's trainers, which its own add no
// op to. core/builders/rl.py, core/trainers/dpo/__init__.py; the reference: train.py,
// setup_reference_model.
#include <algorithm>
#include <iterator>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

struct Kind {
  std::string_view name;
  const char* task;
  bool compares;  ///< with a reference; its trainer is then given the adapters' configuration
};
constexpr Kind kinds[] = {{"dpo", "dpo", true},
                          {"ipo", "dpo", true},
                          {"kto", "kto", true},
                          {"orpo", "orpo", false},
                          {"simpo", "simpo", false}};

const Kind* kind_of(std::string_view name) {
  const auto* kind = std::find_if(std::begin(kinds), std::end(kinds),
                                  [&](const Kind& one) { return one.name == name; });
  return kind == std::end(kinds) ? nullptr : kind;
}

/// Of a model with adapters the reference is the model with them off.
void read_reference(Keys& keys, bool adapters) {
  constexpr const char* precomputed = "precompute_ref_log_probs";
  if (keys.flag(precomputed)) return keys.option(precomputed, "--ref", "precomputed");
  keys.option("adapter", "--ref", adapters ? "adapter" : "model");
}

void read_dpo(Keys& keys, std::string_view name) {
  for (const auto& [key, why] :
       {std::pair{"dpo_use_weighting", "WPO's weights are not planned"},
        std::pair{"dpo_padding_free", "rows that are padded are planned"},
        std::pair{"dpo_use_liger_kernel", "whole logits are planned, not chunks of them"}})
    if (keys.flag(key)) static_cast<void>(keys.unplanned(key, why));
  if (keys.text("dpo_ld_alpha"))
    static_cast<void>(keys.unplanned("dpo_ld_alpha", "LD-DPO is not planned"));
  if (name == "ipo")
    return keys.assume("rl: ipo is planned as dpo: it launches a few kernels more");
  read_losses(keys, "dpo_loss_type", "sigmoid");
}

}  // namespace

bool is_axolotl_rl(Keys& keys) { return !keys.text("rl").value_or("").empty(); }

bool trl_makes_adapters(Keys& keys) {
  const Kind* kind = kind_of(keys.text("rl").value_or(""));
  return kind != nullptr && kind->compares;
}

void read_axolotl_rl(Keys& keys, bool adapters) {
  const std::string name = *keys.text("rl");
  const Kind* kind = kind_of(name);
  if (kind == nullptr)
    keys.refuse(
        "rl",
        "dpo, ipo, kto, orpo and simpo are planned; of GRPO, TRL 1.16's step is, by options: "
        "--framework trl --task grpo");
  for (const char* packs : {"sample_packing", "batch_flattening"})
    if (truth_of(keys.text(packs).value_or("false")).value_or(false))
      keys.refuse(packs, "does not go with rl; leave it out");
  keys.option("rl", "--task", kind->task);
  keys.assume("axolotl 0.21.0 runs TRL 1.14.1, whose logits are whole");
  if (kind->compares) {
    keys.option("rl", "--loss", "ce");
    read_reference(keys, adapters);
  }
  if (kind->task == std::string_view("dpo")) read_dpo(keys, name);
  // CPOConfig: 1 where the file has none
  if (name == "simpo" && (!keys.text("cpo_alpha") || is_weighted(keys, "cpo_alpha")))
    static_cast<void>(keys.unplanned(
        "cpo_alpha", "the chosen answers' cross-entropy is not planned; 0 is, pure SimPO"));
}

}  // namespace ac_advisor::intake
