#include "reports/command_line.hpp"

#include <fmt/format.h>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/config_fields.hpp"

namespace ac_advisor::reports {
namespace {

struct Option {
  const char* name;
  std::string (*text)(const StepConfig&);
};

// What the command line asks for first comes first; the rest is given where it differs.
const Option options[] = {
    {"--gpu", [](const StepConfig& c) { return c.device.gpu; }},
    {"--threads", [](const StepConfig& c) { return std::to_string(c.device.threads); }},
    {"--world", [](const StepConfig& c) { return std::to_string(c.layout.world); }},
    {"--shard", [](const StepConfig& c) { return shard_option(c); }},
    {"--ac", [](const StepConfig& c) { return ac_option(c); }},
    {"--ac-scope", [](const StepConfig& c) { return std::string(to_option(c.memory.scope)); }},
    {"--loss", [](const StepConfig& c) { return loss_option(c); }},
    {"--kernels", [](const StepConfig& c) { return std::string(to_option(c.memory.kernels)); }},
    {"--grad-accum", [](const StepConfig& c) { return std::to_string(c.run.grad_accum); }},
    {"--optimizer", [](const StepConfig& c) { return std::string(to_option(c.optimizer.kind)); }},
    {"--attn", [](const StepConfig& c) { return std::string(to_option(c.run.attention)); }},
    {"--cuda-graph",
     [](const StepConfig& c) { return std::string(to_option(c.runtime.cuda_graph)); }},
    {"--param-dtype",
     [](const StepConfig& c) { return std::string(to_option(c.precision.param_dtype)); }},
    {"--compute-dtype",
     [](const StepConfig& c) { return std::string(to_option(c.precision.compute_dtype)); }},
    {"--reduce-dtype",
     [](const StepConfig& c) { return std::string(to_option(c.precision.reduce_dtype)); }},
    {"--fsdp-unit", [](const StepConfig& c) { return std::string(to_option(c.layout.fsdp_unit)); }},
    {"--dropout", [](const StepConfig& c) { return fmt::format("{}", c.run.dropout); }},
    {"--capacity-factor",
     [](const StepConfig& c) { return fmt::format("{}", c.run.capacity_factor); }},
    {"--alloc-conf",
     [](const StepConfig& c) {
       return std::string(c.runtime.expandable_segments ? "expandable_segments:True"
                                                        : "expandable_segments:False");
     }},
};

struct Flag {
  const char* on;
  const char* off;  ///< null: cannot be turned off
  bool (*is_on)(const StepConfig&);
};
constexpr Flag flags[] = {
    {"--keep-last-block", nullptr, [](const StepConfig& c) { return c.layout.keep_last_block; }},
    {"--no-sync", nullptr, [](const StepConfig& c) { return c.layout.no_sync; }},
    {"--hold-output", "--no-hold-output", [](const StepConfig& c) { return c.memory.hold_output; }},
    {"--force", nullptr, [](const StepConfig& c) { return c.runtime.force; }},
};

/// A mode that is not chosen may have left its argument behind: what counts is what is written.
bool same(const StepConfig& a, const StepConfig& b) {
  return profile::config_fields(a) == profile::config_fields(b);
}

}  // namespace

std::optional<OptionList> options_of(const StepConfig& config) {
  StepConfig wanted = config;
  wanted.memory.block_modes.clear();  // what budget: chose, not what was asked
  const StepConfig plain;
  OptionList list;
  if (wanted.runtime.framework != plain.runtime.framework)
    list.emplace_back("--framework", wanted.runtime.framework);
  list.emplace_back("--batch", std::to_string(wanted.run.batch));
  list.emplace_back("--seq", std::to_string(wanted.run.seq));
  if (wanted.layout.world > 1) {
    list.emplace_back("--world", std::to_string(wanted.layout.world));
    list.emplace_back("--shard", shard_option(wanted));
  }
  try {
    // An option may settle others, so what is missing is looked for twice.
    for (int round = 0; round < 2; ++round) {
      const StepConfig now = resolve_options(list);
      if (same(now, wanted)) return list;
      for (const Option& option : options)
        if (option.text(now) != option.text(wanted))
          list.emplace_back(option.name, option.text(wanted));
      for (const Flag& flag : flags) {
        if (flag.is_on(now) == flag.is_on(wanted)) continue;
        const char* name = flag.is_on(wanted) ? flag.on : flag.off;
        if (name == nullptr) return std::nullopt;
        list.emplace_back(name, "");
      }
    }
    if (same(resolve_options(list), wanted)) return list;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

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
