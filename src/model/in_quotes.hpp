#pragma once

#include <string>
#include <string_view>

namespace ac_advisor::model {

/// Text of the user's, in double quotes, for an error message: long text is cut, and bytes that a
/// terminal would obey or that are not UTF-8 are written as \xNN.
[[nodiscard]] std::string in_quotes(std::string_view text);
/// The same without the quotes.
[[nodiscard]] std::string plain(std::string_view text);

}  // namespace ac_advisor::model
