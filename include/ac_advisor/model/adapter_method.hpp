#pragma once

#include <span>
#include <string_view>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor {

/// peft v0.21, tuners/, by their names there.
enum class AdapterMethod : std::uint8_t {
  lora,
  ia3,
  ln_tuning,
  prompt_tuning,
  p_tuning,
  prefix_tuning,
  loha,
  lokr,
  vera,
  miss,
  oft,
  road,
  adalora,
  trainable_tokens,
  glora,
  delora,
};

namespace model {

/// What of the model a method is about.
enum class AdapterPlace : std::uint8_t { linear_layers, norms, embedding };

struct AdapterMethodRow {
  AdapterMethod method{};
  std::string_view name;   ///< of `--adapter`
  std::string_view size;   ///< what its number is; empty: it has none
  std::int64_t usual = 0;  ///< that number, where none is given; 0: it has to be
  AdapterPlace place{};
  std::string_view config;  ///< PEFT's class
  std::string_view field;   ///< of that class, which the number is
};

/// All but LoRA, which has options of its own.
[[nodiscard]] std::span<const AdapterMethodRow> adapter_methods();
/// Of a method other than LoRA.
[[nodiscard]] const AdapterMethodRow& row(AdapterMethod method);
/// What a method adapts where nothing is said (utils/constants.py): endings of linear layers'
/// names, or of norms'; empty: PEFT asks, or knows none.
[[nodiscard]] std::string_view default_targets(AdapterMethod method, std::string_view family);
/// Of (IA)^3's targets those whose input is scaled, not their output.
[[nodiscard]] std::string_view feedforward_targets(std::string_view family);

}  // namespace model
}  // namespace ac_advisor
