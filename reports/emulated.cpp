// A profile of a program that ran on an emulated device: what it told, and no more.
#include "reports/emulated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "reports/grids.hpp"
#include "reports/kernel_name.hpp"

namespace ac_advisor::reports {
namespace {

constexpr std::size_t forward = 0, backward = 2, optimizer = 4;
constexpr std::size_t steps_shown = 4, kernels_shown = 12;

bool has(const profile::Profile& p, const char* path) { return !p.absent.contains(path); }

std::string gib_or_dash(const profile::Profile& p, const char* path, std::int64_t bytes) {
  return has(p, path) ? gib(bytes) + " GiB" : "not known";
}

Grid step_grid(const profile::Emulation& e) {
  Grid grid({"step", "allocated GiB", "reserved GiB", "forward", "backward", "optimizer"});
  for (std::size_t i = 0; i < std::min(steps_shown, e.steps.size()); ++i) {
    const profile::EmulatedStep& s = e.steps[i];
    grid.row({std::to_string(s.index), gib(s.peak_allocated), gib(s.peak_reserved),
              grouped(s.launches[forward]), grouped(s.launches[backward]),
              grouped(s.launches[optimizer])});
  }
  return grid;
}

/// Kernels that differ in types or in how they are vectorised alone are one row.
Grid kernel_grid(const profile::Emulation& e) {
  std::vector<profile::KernelCount> rows;
  for (const profile::KernelCount& k : e.kernels) {
    const std::string name = kernel_name(k.name);
    auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
    if (row == rows.end()) row = rows.insert(row, {name, {}});
    for (std::size_t i = 0; i < k.launches.size(); ++i) row->launches[i] += k.launches[i];
  }
  const auto launches = [](const profile::KernelCount& k) {
    return std::accumulate(k.launches.begin(), k.launches.end(), std::int64_t{0});
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return launches(a) > launches(b); });
  profile::KernelCount others;
  for (std::size_t i = kernels_shown; i < rows.size(); ++i)
    for (std::size_t p = 0; p < others.launches.size(); ++p)
      others.launches[p] += rows[i].launches[p];
  if (rows.size() > kernels_shown) {
    others.name = "… " + std::to_string(rows.size() - kernels_shown) + " more";
    rows.resize(kernels_shown);
    rows.push_back(others);
  }
  Grid grid({"kernel", "forward", "backward", "optimizer"});
  for (const profile::KernelCount& k : rows)  // the grid cuts what is too wide
    grid.row({printable(k.name), grouped(k.launches[forward]), grouped(k.launches[backward]),
              grouped(k.launches[optimizer])});
  return grid;
}

std::string refusal(const profile::OutOfMemory& o) {
  return fmt::format(
      "out of memory in {} of step {}: {} GiB asked for, {} GiB free; {} GiB allocated, {} GiB "
      "reserved\n",
      printable(o.phase), o.step, gib(o.requested), gib(o.device_free), gib(o.allocated),
      gib(o.reserved));
}

std::string peaks(const profile::Profile& p) {
  const profile::Emulation& e = *p.emulation;
  std::string text =
      fmt::format("peak allocated {}, reserved {}\n",
                  gib_or_dash(p, "memory.peak_allocated_bytes", p.memory.peak_allocated),
                  gib_or_dash(p, "memory.peak_reserved_bytes", p.memory.peak_reserved));
  if (has(p, "memory.peak_phase"))
    text += fmt::format("in {}; first step {}\n", printable(p.memory.peak_phase),
                        gib_or_dash(p, "memory.first_step_peak_bytes", p.memory.first_step_peak));
  text += fmt::format("{}: the device held {} GiB of {} GiB (context {} GiB)\n",
                      p.fit.fits ? "fits" : "does not fit", gib(e.device_peak), gib(e.device_total),
                      gib(e.device_context));
  if (e.out_of_memory) text += refusal(*e.out_of_memory);
  return text;
}

std::string reasons(const profile::Profile& p) {
  std::string text;
  for (const char* field : {"memory.peak_allocated_bytes", "kernels.launches"})
    if (const auto why = p.absent.find(field); why != p.absent.end())
      text += std::string(field) + ": not known: " + printable(why->second) + "\n";
  for (const std::string& warning : p.warnings) text += "warning: " + printable(warning) + "\n";
  for (const std::string& note : p.assumptions) text += "note: " + printable(note) + "\n";
  return text;
}

}  // namespace

std::string emulated_title(const profile::Profile& p) {
  const profile::Emulation& e = *p.emulation;
  std::string text = "emulated: " + printable(e.command) + "\non " + printable(p.device_name);
  if (e.world > 1) text += fmt::format(", rank {} of {}", e.rank, e.world);
  return text + "\n";
}

std::string emulated_table(const profile::Profile& p, const Style& style) {
  const profile::Emulation& e = *p.emulation;
  std::string text =
      bold(wrap(emulated_title(p), style.width), style.color) + "\n" + wrap(peaks(p), style.width);
  if (!e.steps.empty())
    text += "\npeaks and launches of each step\n" + step_grid(e).text(style.color, style.width);
  if (e.steps.size() > steps_shown)
    text += fmt::format("… {} more\n", e.steps.size() - steps_shown);
  if (!e.kernels.empty())
    text += fmt::format("\nkernels of step {}\n",
                        e.steps.size() > 1 ? e.steps[1].index : e.steps[0].index) +
            kernel_grid(e).text(style.color, style.width);
  return text + "\n" + wrap(reasons(p), style.width);
}

std::string emulated_markdown(const profile::Profile& p) {
  const profile::Emulation& e = *p.emulation;
  std::string text = escape_markdown(emulated_title(p)) + "\n" + escape_markdown(peaks(p));
  if (!e.steps.empty()) text += "\n" + step_grid(e).markdown();
  if (!e.kernels.empty()) text += "\n" + kernel_grid(e).markdown();
  return text + "\n" + escape_markdown(reasons(p));
}

std::string emulated_csv(const profile::Profile& p) {
  Grid grid({"step", "peak_allocated_bytes", "peak_reserved_bytes", "forward_peak_bytes",
             "backward_peak_bytes", "optimizer_peak_bytes", "forward_launches", "backward_launches",
             "optimizer_launches", "host_copies", "host_copy_bytes"});
  for (const profile::EmulatedStep& s : p.emulation->steps) {
    std::vector<std::string> cells;
    for (const std::int64_t n :
         {s.index, s.peak_allocated, s.peak_reserved, s.peak_by_phase[forward],
          s.peak_by_phase[backward], s.peak_by_phase[optimizer], s.launches[forward],
          s.launches[backward], s.launches[optimizer], s.host_copies, s.host_copy_bytes})
      cells.push_back(std::to_string(n));
    grid.row(std::move(cells));
  }
  return grid.csv();
}

}  // namespace ac_advisor::reports
