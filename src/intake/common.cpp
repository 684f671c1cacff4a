// What several tools say alike.
#include <fmt/format.h>

#include <utility>

#include "tool.hpp"

namespace ac_advisor::intake {

void read_dropout(Keys& keys, std::string_view key, const std::string& option,
                  const char* by_default) {
  if (const std::string given = keys.text(key).value_or(by_default); given != "0" && given != "0.0")
    keys.option(key, option, given);
}

void assume_one_document(Keys& keys) {
  keys.assume(
      "packed rows are planned with one document each; shorter ones attend to less and hold as "
      "much");
}

void assume_longest(Keys& keys, std::string_view key) {
  keys.assume(fmt::format(
      "each row is planned {} tokens long, an upper bound: shorter batches hold less", key));
}

Node scalar_of(std::string text) { return {.kind = Node::Kind::scalar, .text = std::move(text)}; }

Node map_of(std::vector<Member> members) {
  return {.kind = Node::Kind::map, .members = std::move(members)};
}

}  // namespace ac_advisor::intake
