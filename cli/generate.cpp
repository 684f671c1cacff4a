#include "cli/generate.hpp"

#include "cli/commands.hpp"
#include "model/options_parse.hpp"

namespace ac_advisor::cli {
namespace {

struct Kind {
  std::string_view name;
  std::string (*text)();
};
constexpr Kind kinds[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion},          {"fish", fish_completion},
    {"man", man_page},         {"reference", options_reference}, {"schema", options_schema},
    {"page", planner_page}};

}  // namespace

std::vector<std::string_view> generated_names() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds) names.push_back(kind.name);
  return names;
}

std::string run_generate(const Arguments& a) {
  for (const Kind& kind : kinds)
    if (kind.name == a.positional.at(0)) return kind.text();
  options::refuse_choice({"generate", a.positional.at(0)}, generated_names());
}

}  // namespace ac_advisor::cli
