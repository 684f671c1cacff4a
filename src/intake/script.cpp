// Which of a script's commands trains.
#include "script.hpp"

#include <fmt/format.h>

#include <utility>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::intake {

void Said::set(std::string key, Node value) {
  constexpr std::size_t most = 2048;
  const auto [at, added] = places_.try_emplace(key, map_.members.size());
  if (!added) return static_cast<void>(map_.members[at->second].value = std::move(value));
  if (map_.members.size() == most)
    throw UserError(fmt::format("{}:{}: more than {} {}", path_, value.line, most, what_));
  map_.members.push_back({std::move(key), std::move(value)});
}

Node parse_script(const std::string& text, const std::string& path) {
  ShellScript script = read_script(text, path);
  const ShellCommand* chosen = nullptr;
  Launch launch;
  for (const ShellCommand& command : script.commands) {
    const Launch started = launch_of(command);
    if (started.key.empty() && !has_overrides(command)) continue;
    if (chosen != nullptr)
      throw UserError(fmt::format(
          "{}:{}: a second command with {}, after that of line {}; keep one (a comment between "
          "continued lines ends a command, too)",
          path, command.words.front().line,
          started.key.empty() ? "overrides (key.name=value)" : "a training's arguments",
          chosen->words.front().line));
    chosen = &command;
    launch = started;
  }
  if (chosen == nullptr)
    throw UserError(fmt::format(
        "{}: no command of this script has overrides (key.name=value), as those that start verl "
        "have, or is swift sft, pt or rlhf, one of openrlhf.cli's, or pretrain_gpt.py with "
        "arguments",
        path));
  Node map = launch.key.empty() ? read_overrides(*chosen, path)
                                : read_arguments(script, *chosen, launch, path);
  map.notes = std::move(script.notes);
  return map;
}

}  // namespace ac_advisor::intake
