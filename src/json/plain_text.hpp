#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace ac_advisor::json {

/// Reads JSON whose strings are of printable ASCII without escapes, as programs mostly write it,
/// and tells `sax` of it as nlohmann's parser would, in a fifth of its time. False at whatever else
/// it meets, valid or not: then nlohmann's parser has to read the text, which can say what is
/// wrong. What `sax` throws, it throws.
[[nodiscard]] bool read_plain_text(std::string_view text,
                                   nlohmann::json_sax<nlohmann::ordered_json>& sax);

}  // namespace ac_advisor::json
