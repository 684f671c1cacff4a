#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tool.hpp"

/// Megatron-LM's arguments, which megatron.cpp, megatron_model.cpp and megatron_layout.cpp read.
namespace ac_advisor::intake::megatron_keys {

/// The numbers of "([0]*3+[1])*2", as `moe_freq_type` evaluates them; nothing where it is no such
/// list, or one of more than 2^16.
[[nodiscard]] std::optional<std::vector<std::int64_t>> listed(std::string_view expression);

/// A whole number that an option has by hand, else by the file; `otherwise` where neither gave it.
/// Throws UserError.
[[nodiscard]] std::int64_t given(const Keys& keys, std::string_view option, std::int64_t otherwise);

/// How many ranks a step's parts are on.
struct Layout {
  std::int64_t world = 1, tp = 1, pp = 1, cp = 1;
  [[nodiscard]] std::int64_t replicas() const { return world / (tp * pp * cp); }
};
/// --world, --tp, --pp, --cp, --ep, --etp, and what is divided how.
[[nodiscard]] Layout read_layout(Keys& keys);
/// The virtual stages, and the layers of each; after the model, which has `layers`.
void read_stages(Keys& keys, const Layout& layout, std::int64_t layers);

/// MODEL of the arguments that are its sizes, unless it is by hand; how many layers it has.
[[nodiscard]] std::int64_t read_model(Keys& keys, const Layout& layout);

}  // namespace ac_advisor::intake::megatron_keys
