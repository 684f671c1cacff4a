#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ac_advisor::reports {

/// A file of reports/html/, as it was built in.
[[nodiscard]] std::string_view html_part(const std::string& name);

/// A template with each {{name}} replaced by what `content` gives for it.
[[nodiscard]] std::string filled(std::string_view whole,
                                 const std::function<std::string(std::string_view)>& content);

/// Scripts of reports/html/, one after another.
[[nodiscard]] std::string scripts_text(std::initializer_list<const char*> names);

[[nodiscard]] std::string escape_html(const std::string& text);
/// JSON inside <script>: no `<` means no tag and no comment can end or begin in it.
[[nodiscard]] std::string escape_json(const std::string& json);

}  // namespace ac_advisor::reports
