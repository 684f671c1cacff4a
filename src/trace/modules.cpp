// The modules in a range's path, and what modules of the same kind are called together.
#include <algorithm>
#include <array>

#include "ac_advisor/trace/summary.hpp"
#include "trace/range_tree.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::string_view digits = "0123456789";

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of(digits) == word.npos;
}

/// A step, a phase, an op or a node of the backward graph: no module.
bool is_no_module(std::string_view range) {
  static constexpr std::array<std::string_view, 9> words{"forward",   "backward",   "recompute",
                                                         "optimizer", "loss",       "step",
                                                         "graph",     "ac-trainer", "[others]"};
  return range.find("::") != range.npos || range.find('#') != range.npos || names_step(range) ||
         range.find("Backward") != range.npos || range.starts_with("Optimizer.") ||
         range.starts_with("enumerate(") || range.starts_with("nccl:") ||
         std::find(words.begin(), words.end(), range) != words.end();
}

}  // namespace

std::string module_of(const std::string& path) {
  // Where torch.profiler names modules, other annotations are none.
  const bool told = path.find(module_prefix) != std::string::npos;
  std::string module;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    std::string_view name = std::string_view(path).substr(at, end - at);
    at = end + 1;
    if (told && !name.starts_with(module_prefix)) continue;
    if (told) name.remove_prefix(module_prefix.size());
    if (name.empty() || (!told && is_no_module(name))) continue;
    module += (module.empty() ? "" : ".") + std::string(name);
  }
  return module;
}

std::string module_kind(const std::string& module) {
  std::string kind;
  for (std::size_t at = 0; at <= module.size();) {
    const std::size_t end = std::min(module.find('.', at), module.size());
    std::string_view name = std::string_view(module).substr(at, end - at);
    at = end + 1;
    if (const std::size_t number = name.find_last_of('_');
        number != name.npos && number > 0 && is_number(name.substr(number + 1)))
      name = name.substr(0, number);
    kind += (kind.empty() ? "" : ".") + std::string(is_number(name) ? "*" : name);
  }
  return kind;
}

}  // namespace ac_advisor::trace
