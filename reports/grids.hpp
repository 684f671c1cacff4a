#pragma once

#include "ac_advisor/reports/reports.hpp"
#include "reports/grid.hpp"

/// The tables that the terminal and Markdown renderers share.
namespace ac_advisor::reports {

/// Of all of a sweep's rows.
[[nodiscard]] profile::TimeBasis time_basis(const advise::Sweep& sweep);
/// "est. ms", "calibrated ms", "ms"
[[nodiscard]] std::string time_unit(profile::TimeBasis basis, const std::string& unit);
/// "+ LC-CE (n/a)": with a mark where the framework cannot do it.
[[nodiscard]] std::string technique_name(const advise::Saving& saving);
[[nodiscard]] Grid savings_grid(const advise::Sweep& sweep);
/// Which kind of module to checkpoint first, from a plan of each.
[[nodiscard]] Grid module_grid(const advise::ModuleCosts& costs, profile::TimeBasis basis);
/// The order that follows from it, and what no kind keeps.
[[nodiscard]] std::string module_note(const advise::ModuleCosts& costs);
/// What is kept while --batch varies: one line.
[[nodiscard]] std::string batch_note(const advise::Sweep& sweep);
/// Why each technique that the savings table lacks is not planned, a line each; empty: none is.
[[nodiscard]] std::string not_planned_note(const advise::Sweep& sweep);
/// How many rows the framework lacks, the fastest of them and why; empty: none.
[[nodiscard]] std::string unavailable_note(const advise::Sweep& sweep);
/// Each layout's best configuration; no rows where there is one layout.
[[nodiscard]] Grid layout_grid(const advise::Sweep& sweep);
/// Why each layout is not the first: one line; empty where there is one layout.
[[nodiscard]] std::string layout_note(const advise::Sweep& sweep);
[[nodiscard]] Grid ranking_grid(const advise::Sweep& sweep, std::size_t rows);
/// "; c: …": what the mark beside a row's largest batch means; empty where no row has it. Liger's
/// chunk grows with the batch.
[[nodiscard]] std::string chunk_note(const advise::Sweep& sweep);
[[nodiscard]] Grid phase_grid(const profile::Profile& profile);
/// Of a step of several phases, a row each: what is on the device.
[[nodiscard]] Grid task_phase_grid(const profile::Profile& profile);
/// The phase that needs most of the device, and what its figures are.
[[nodiscard]] std::string task_phase_note(const profile::Profile& profile);
[[nodiscard]] Grid category_grid(const profile::Profile& profile);
/// Of a pipeline: what each of its ranks has and holds.
[[nodiscard]] Grid rank_grid(const profile::Profile& profile);
[[nodiscard]] Grid largest_grid(const profile::Profile& profile);
[[nodiscard]] Grid change_grid(const std::string& head, const std::vector<profile::Change>& changes,
                               bool bytes);
[[nodiscard]] Grid field_grid(const std::vector<profile::FieldChange>& fields);
[[nodiscard]] Grid row_change_grid(const SweepDiff& diff, std::size_t rows);
/// What is not explained in a cell is numbered there and told by `trace_reasons`.
[[nodiscard]] Grid trace_grid(const Trace& trace);
[[nodiscard]] std::vector<std::string> trace_reasons(const Trace& trace);
/// "Llama…, 1,235,814,400 parameters; batch 8 x 2048, fsdp2 over 8, …", three lines.
[[nodiscard]] std::string title(const profile::Profile& profile);

}  // namespace ac_advisor::reports
