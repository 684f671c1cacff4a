#include "reports/command_line.hpp"

namespace ac_advisor::reports {
std::string shell_word(const std::string& word) {
  const char* const plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+%@-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_line(const OptionList& list) {
  std::string text;
  for (const auto& [name, value] : list) {
    text += (text.empty() ? "" : " ") + name;
    if (!value.empty()) text += " " + shell_word(value);
  }
  return text;
}

}  // namespace ac_advisor::reports
