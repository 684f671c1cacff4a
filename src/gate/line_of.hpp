#pragma once

#include <map>
#include <string>

namespace ac_advisor::gate {

/// Lines, counted from 1, on which a JSON text has `"name": "<value>"`, by value; the first of
/// each.
[[nodiscard]] std::map<std::string, int> lines_of_names(const std::string& text);
/// The first line from line `from` on where `key` is a key; 0 where there is none before the next
/// `until` key.
[[nodiscard]] int line_of_key(const std::string& text, const std::string& key, int from = 1,
                              const std::string& until = {});

}  // namespace ac_advisor::gate
