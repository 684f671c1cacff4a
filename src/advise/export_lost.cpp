// What a file cannot say. The framework runs its preset with what the file sets over it: where an
// option of the plan is another then, the note names both.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "export_target.hpp"
#include "without_effect.hpp"

namespace ac_advisor::advise::exports {
namespace {

/// Said of every target (export.cpp: refused, or in a note), or no part of what is trained.
constexpr std::string_view elsewhere[] = {"packing",
                                          "images",
                                          "image_pixels",
                                          "freeze",
                                          "tower_ac",
                                          "grad_compression",
                                          "position_ids",
                                          "ema",
                                          "framework",
                                          "gpu",
                                          "threads",
                                          "node_size",
                                          "network_gbps",
                                          "cp_rank",
                                          "pp_rank",
                                          "force",
                                          "block_modes",
                                          "runtime",
                                          "under_dispatch_mode",
                                          "balanced_routing",  // of the trainer
                                          "expandable_segments",
                                          "cublas_workspace",
                                          "torch"};

template <typename Keys>
bool has(const Keys& keys, std::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

/// The preset of the loop that reads the file.
std::string preset_of(const Setting& s) {
  if (s.target.name != "hf") return std::string(s.target.name);
  return s.c.runtime.framework == "trl" ? "trl" : "hf-trainer";
}

/// As it is typed: "--attn math", "--no-hold-output".
std::string typed(const OptionRow& row, const StepConfig& c) {
  if (!row.metavar.empty()) {
    const std::string text = row.text(c);
    return fmt::format("{} {}", row.name, text.empty() ? "''" : text);
  }
  if (row.text(c) == "true") return std::string(row.name);
  return row.off.empty() ? fmt::format("no {}", row.name) : std::string(row.off);
}

/// The target's own step with all that its file says.
StepConfig own(const Setting& s) {
  OptionList said{{"--framework", preset_of(s)}};
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line() || !has(s.target.says, row.key)) continue;
    const bool flag = row.metavar.empty();
    const std::string text = row.text(s.c);
    if (flag && text == "true")
      said.emplace_back(row.name, "");
    else if (flag && !row.off.empty())
      said.emplace_back(row.off, "");
    else if (!flag && !text.empty())
      said.emplace_back(row.name, text);
  }
  try {
    return resolve_options(said);
  } catch (const UserError&) {  // the preset's own ways settle them otherwise
    StepConfig c = resolve_options({said.front()});
    for (const OptionRow& row : option_table())
      if (has(s.target.says, row.key)) row.set(row, row.get(s.c), c);
    return c;
  }
}

}  // namespace

void note_lost(const Setting& s, ExportResult& out) {
  const StepConfig theirs = own(s);
  std::string lost;
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line() || has(elsewhere, row.key) || has(s.target.says, row.key)) continue;
    const bool acts = changes_step(row.key, s.model, s.c) || changes_step(row.key, s.model, theirs);
    if (acts && row.text(s.c) != row.text(theirs))
      lost += fmt::format("{}{} (its own: {})", lost.empty() ? "" : ", ", typed(row, s.c),
                          typed(row, theirs));
  }
  if (!lost.empty())
    out.notes.push_back(
        s.c.runtime.framework == preset_of(s)
            ? fmt::format("not in the file: {}; plan without for its step", lost)
            : fmt::format("not in the file: {}; plan with --framework {} for its step", lost,
                          preset_of(s)));
}

}  // namespace ac_advisor::advise::exports
