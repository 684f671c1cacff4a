#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ac_advisor::web {

using Progress = std::function<void(std::size_t done, std::size_t of)>;

/// What the page asks of the core, JSON in and out. `request` is {"do": WORD, …} with
///   options   → {version, groups, settled, models, hub, families}: the option table and its
///               defaults, for the page's controls
///   plan      → {title, verdict, data, options}: `data` is what the report's scripts read,
///   `options`
///               the text of each option as it was settled
///   sweep     → the same of a sweep; `progress` is told how far it is
///   compare   → the same of two plans, of `a` and `b`
///   json      → {text}: what `plan --format json` prints; with "sweep": true what `advise` does
/// where a step is {model: {sample} or {text, origin, name}, as, options: [["--ac", "full"], …]}.
/// Whatever is wrong with a step is {error}, in the words of the command line; it never throws.
[[nodiscard]] std::string answer(const std::string& request, const Progress& progress);

}  // namespace ac_advisor::web
