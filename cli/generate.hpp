#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Texts made from the tables of commands and options.
namespace ac_advisor::cli {

[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();
[[nodiscard]] std::string fish_completion();
/// groff's man macros: ac-advisor(1).
[[nodiscard]] std::string man_page();
/// docs/options.md.
[[nodiscard]] std::string options_reference();
/// docs/schema/config-1.json.
[[nodiscard]] std::string options_schema();
/// The page that plans in a browser, as one file. Throws UserError where it was not built.
[[nodiscard]] std::string planner_page();
/// What `ac-advisor generate` takes: bash, zsh, …
[[nodiscard]] std::vector<std::string_view> generated_names();

}  // namespace ac_advisor::cli
