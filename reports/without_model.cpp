#include "reports/without_model.hpp"

#include <fmt/format.h>

#include "reports/grids.hpp"

namespace ac_advisor::reports {
namespace {

Grid peaks_by_phase(const profile::Profile& p) {
  Grid grid({"phase", "peak GiB"});
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i) {
    const std::string name = profile::phase_names[i];
    grid.row({name, p.has("memory.peak_by_phase." + name) ? gib(p.memory.peak_by_phase[i]) : "-"});
  }
  return grid;
}

std::string figures(const profile::Profile& p) {
  return fmt::format("{}: peak allocated {} GiB, reserved {} GiB, in {}", p.device_name,
                     gib(p.memory.peak_allocated), gib(p.memory.peak_reserved),
                     p.memory.peak_phase.empty() ? "the final state" : p.memory.peak_phase);
}

}  // namespace

std::string table_without_model(const profile::Profile& p, const Style& style) {
  std::string text = bold(wrap(printable(figures(p)), style.width), style.color) + "\n\n";
  text += category_grid(p).text(style.color, style.width) + "\n" +
          peaks_by_phase(p).text(style.color, style.width) + "\n";
  for (const std::string& warning : p.warnings)
    text += wrap("note: " + printable(warning), style.width) + "\n";
  return text;
}

std::string markdown_without_model(const profile::Profile& p) {
  return escape_markdown(figures(p)) + "\n\n" + category_grid(p).markdown() + "\n" +
         peaks_by_phase(p).markdown();
}

std::string csv_without_model(const profile::Profile& p) {
  Grid grid({"field", "bytes"});
  grid.row({"peak_allocated", std::to_string(p.memory.peak_allocated)});
  grid.row({"peak_reserved", std::to_string(p.memory.peak_reserved)});
  for (std::size_t i = 0; i < profile::category_count; ++i)
    grid.row({"at_peak." + std::string(to_string(static_cast<profile::Category>(i))),
              std::to_string(p.memory.at_peak[i])});
  return grid.csv();
}

}  // namespace ac_advisor::reports
