#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ac_advisor::test {

/// What in `text` breaks the schema that its "schema" key names (docs/schema/), with its place.
/// Covers the keywords that those schemas use and throws std::runtime_error for any other.
std::vector<std::string> schema_errors(const std::string& text);

/// The same against a schema that is given; its references are to itself.
std::vector<std::string> schema_errors(const nlohmann::json& value, const nlohmann::json& schema);

}  // namespace ac_advisor::test
