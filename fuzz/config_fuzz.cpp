// Whatever the bytes, parse_config returns a model that can be counted or throws UserError.
// A first byte below the number of families chooses `as`; any other text is read as it is.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ac_advisor;
  const auto& families = model::known_families();
  const bool overridden = size > 0 && data[0] < families.size();
  const std::string as = overridden ? families[data[0]] : "";
  const std::string text(data + (overridden ? 1 : 0), data + size);
  try {
    const model::ModelSpec spec = model::parse_config(text, "fuzz.json", "fuzz", as);
    if (spec.graph != nullptr) return 0;  // graph_fuzz has these
    if (model::parameter_count(spec) <= 0) __builtin_trap();
    if (spec.window.size() != static_cast<std::size_t>(spec.layers)) __builtin_trap();
    if (spec.moe && spec.sparse_block.size() != spec.window.size()) __builtin_trap();
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
