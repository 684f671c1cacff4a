#pragma once

#include <optional>
#include <string>

namespace ac_advisor::gate {

/// A file's text; none where there is no such file. Throws UserError where it cannot be read or has
/// more than 64 MiB.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

}  // namespace ac_advisor::gate
