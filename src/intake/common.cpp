// What several tools say alike.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <utility>

#include "tool.hpp"

namespace ac_advisor::intake {

void read_dropout(Keys& keys, std::string_view key, const std::string& option,
                  const char* by_default) {
  if (const std::string given = keys.text(key).value_or(by_default); given != "0" && given != "0.0")
    keys.option(key, option, given);
}

bool is_weighted(Keys& keys, const char* key) {
  const std::optional<std::string> text = keys.text(key);
  if (!text) return false;
  double weight = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), weight);
  if (problem != std::errc{} || end != text->data() + text->size())
    keys.refuse(key, "is no number");
  return weight != 0;
}

void assume_loss(Keys& keys, std::string_view key, const std::string& loss,
                 const std::string& planned) {
  keys.assume(
      fmt::format("{}: {} is planned as {}: it launches a few kernels more or fewer of a number a "
                  "row or a token",
                  key, loss, planned));
}

void read_losses(Keys& keys, std::string_view key, const std::string& planned) {
  if (!keys.in_file(key)) return;
  const std::vector<std::string> losses = keys.words(key);
  for (const std::string& loss : losses)
    if (loss == "sft") static_cast<void>(keys.unplanned(key, planned + " is planned"));
  if (losses != std::vector<std::string>{planned})
    assume_loss(keys, key, fmt::format("{}", fmt::join(losses, ", ")), planned);
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
