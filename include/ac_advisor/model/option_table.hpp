#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor {

/// A value of an option as JSON has it.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// Where --help, the man page and the browser page show an option.
enum class OptionGroup : std::uint8_t {
  model,
  task,
  memory,
  adapters,
  parallelism,
  precision,
  device,
  internal
};
inline constexpr std::size_t option_group_count = 8;
[[nodiscard]] const char* title_of(OptionGroup group);  ///< "Memory techniques"

/// What an option needs of the others. Where it does not hold, a value by hand is refused and a
/// preset's falls back to the default.
struct Requirement {
  bool (*holds)(const StepConfig&);
  std::string (*conflict)(const StepConfig&);  ///< what is in its way: "--shard ddp"
  std::string_view because;                    ///< "only fsdp2 and hsdp:N gather blocks"
  std::string_view instead;                    ///< "use --shard fsdp2 --world N"
};

/// All that is known of one option of a training step: one row. The command line, --help, the man
/// page, shell completion, JSON in and out, its schema, "the command to plan it again", the gate's
/// fingerprint and the axes of a sweep are made from the table.
struct OptionRow {
  std::string_view name;     ///< "--grad-accum"; empty in OptionGroup::internal
  std::string_view key;      ///< in JSON: "grad_accum"
  std::string_view metavar;  ///< "N"; empty: a flag, which takes no value
  std::string_view help;     ///< with unit and default
  OptionGroup group{};
  std::span<const std::string_view> words;  ///< what it takes: "none", "hsdp:N"; empty: free
  std::string_view off;                     ///< a flag's opposite: "--no-hold-output"
  std::string_view bare;                    ///< its value where none is written: "bf16"
  std::string_view pattern;                 ///< of its text in JSON, a regular expression
  std::int64_t least = 0, most = 0;         ///< of whole numbers
  const Requirement* needs = nullptr;
  /// Later than the first files of profile/1: JSON and fingerprints leave it out at its default.
  bool newer = false;

  /// Sets what `text` says; a flag takes no text. Throws UserError naming `written` (the option as
  /// it was given, --no-hold-output say) and what would be right.
  void (*parse)(const OptionRow&, std::string_view written, std::string_view text, StepConfig&);
  OptionValue (*get)(const StepConfig&);   ///< for JSON
  std::string (*text)(const StepConfig&);  ///< what `parse` reads; of a flag "true" or "false"
  void (*set)(const OptionRow&, const OptionValue&, StepConfig&);  ///< from JSON; throws UserError

  [[nodiscard]] bool on_command_line() const { return !name.empty(); }
  [[nodiscard]] bool is_default(const StepConfig& config) const;
};

/// In the order of JSON and of --help.
[[nodiscard]] std::span<const OptionRow> option_table();
/// The row of "--grad-accum" or of a flag's opposite; null for a name that is none.
[[nodiscard]] const OptionRow* find_option(std::string_view name);
[[nodiscard]] const OptionRow* find_option_key(std::string_view key);

/// An option that most people need, the GPU first, in fewer words than the table's.
struct NeededOption {
  std::string_view name, text;
};
[[nodiscard]] std::span<const NeededOption> options_needed_by_most();

}  // namespace ac_advisor
