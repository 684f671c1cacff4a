#include "reports/snapshot_grids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace ac_advisor::reports {
namespace {

using snapshot::Analysis;

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string place(const std::string& where) { return where.empty() ? "(no frames)" : where; }

/// "12.345 GiB", "24.0 MiB", "512 B"
std::string size(std::int64_t bytes) {
  if (bytes >= 1 << 30) return gib(bytes) + " GiB";
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return grouped(bytes) + " B";
}

Grid category_grid(const Analysis& a) {
  Grid grid({"at the peak", "GiB", "share"});
  for (std::size_t i = 0; i < a.at_peak.size(); ++i)
    if (a.at_peak[i] != 0)
      grid.row({profile::to_string(static_cast<profile::Category>(i)), gib(a.at_peak[i]),
                percent(share(a.at_peak[i], a.peak_allocated))});
  return grid;
}

Grid site_grid(const Analysis& a, std::size_t rows) {
  Grid grid({"allocated at", "category", "blocks", "GiB", "share"});
  for (std::size_t i = 0; i < a.sites.size() && i < rows; ++i) {
    const snapshot::Site& s = a.sites[i];
    grid.row({place(s.where), profile::to_string(s.category), grouped(s.blocks), gib(s.bytes),
              percent(share(s.bytes, a.peak_allocated))});
  }
  return grid;
}

Grid step_grid(const Analysis& a, std::size_t rows) {
  Grid grid({"step", "events", "peak GiB", "forward", "backward", "optimizer", "reserved", "ms"});
  const auto cell = [](std::int64_t bytes) { return bytes > 0 ? gib(bytes) : "-"; };
  for (std::size_t i = 0; i < a.steps.size() && i < rows; ++i) {
    const snapshot::StepSummary& s = a.steps[i];
    grid.row({std::to_string(i) + (s.complete ? "" : " (part)"), grouped(s.end - s.begin),
              gib(s.peak_allocated), cell(std::max(s.peak_by_phase[0], s.peak_by_phase[1])),
              cell(s.peak_by_phase[2]), cell(s.peak_by_phase[4]), gib(s.peak_reserved),
              s.seconds > 0 ? milliseconds(s.seconds) : "-"});
  }
  return grid;
}

Grid pinned_grid(const Analysis& a) {
  Grid grid({"segment", "GiB", "free GiB", "blocks", "its smallest block", "B"});
  for (const snapshot::PinnedSegment& p : a.fragmentation.pinned)
    grid.row({fmt::format("{:#x}", p.address), gib(p.size), gib(p.size - p.used), grouped(p.blocks),
              place(p.smallest_where), grouped(p.smallest)});
  return grid;
}

void tell_fragmentation(const Analysis& a, std::vector<std::string>& text) {
  const snapshot::Fragmentation& f = a.fragmentation;
  text.push_back(fmt::format(
      "Peak reserved {}: {} were allocated then, {} free in the cache; the largest request that a "
      "free block would have served is {}",
      size(f.peak_reserved), size(f.allocated_then), size(f.free_then), size(f.largest_free)));
  if (!f.replayed_reserved) {
    text.push_back("Not replayed: " + f.not_replayed);
    return;
  }
  const std::int64_t off = *f.replayed_reserved - f.peak_reserved;
  // Of a request that failed the sentence before speaks; these are the others.
  text.push_back(
      (off == 0 ? std::string("The allocator's replica reserves the same for what was served")
                : fmt::format("The allocator's replica reserves {} for what was served ({:+.1f} %)",
                              size(*f.replayed_reserved),
                              100.0 * share(off, std::max<std::int64_t>(1, f.peak_reserved)))) +
      fmt::format("; with expandable_segments:True {}, {}", size(*f.replayed_expandable),
                  *f.replayed_expandable < *f.replayed_reserved
                      ? "saving " + size(*f.replayed_reserved - *f.replayed_expandable)
                      : std::string("no less")));
}

void tell_out_of_memory(const Analysis& a, std::vector<std::string>& text) {
  for (const snapshot::OutOfMemory& o : a.out_of_memory)
    text.push_back(fmt::format(
        "Out of memory at event {}: {} were asked for{}; {} were allocated, {} reserved, {} of it "
        "free; the device had {} left. At most {} could be allocated; with expandable segments "
        "{}{}",
        grouped(o.event), size(o.requested), o.where.empty() ? "" : " at " + o.where,
        size(o.allocated), size(o.reserved), size(o.cached), size(o.device_free),
        size(o.would_have_fitted), size(o.would_have_fitted_expandable),
        o.requested <= o.would_have_fitted_expandable ? ", so this request may have been served"
                                                      : ""));
}

Grid beside_grid(const std::string& head, const std::vector<snapshot::Beside>& rows) {
  Grid grid({head, "planned GiB", "measured", "difference", "share"});
  for (const snapshot::Beside& b : rows) {
    if (!b.is_measured) {
      grid.row({b.name, gib(b.planned), "-", "-", "-"});
      continue;
    }
    const std::int64_t d = b.measured - b.planned;
    grid.row({b.name, gib(b.planned), gib(b.measured), signed_gib(d),
              b.planned > 0 ? fmt::format("{:+.2f} %", 100.0 * share(d, b.planned)) : "-"});
  }
  return grid;
}

Grid unmatched_grid(const std::string& head, const std::vector<snapshot::Unmatched>& list,
                    std::size_t rows) {
  Grid grid({head, "category", "count", "B each", "GiB"});
  for (std::size_t i = 0; i < list.size() && i < rows; ++i)
    grid.row({place(list[i].what), list[i].category, grouped(list[i].count), grouped(list[i].size),
              gib(list[i].bytes())});
  return grid;
}

Grid growth_grid(const std::string& head, const std::vector<snapshot::Growth::Row>& list,
                 std::size_t rows) {
  Grid grid({head, "category", "A GiB", "B GiB", "growth", "blocks"});
  for (std::size_t i = 0; i < list.size() && i < rows; ++i)
    grid.row({place(list[i].where), profile::to_string(list[i].category), gib(list[i].a),
              gib(list[i].b), signed_gib(list[i].b - list[i].a),
              fmt::format("{:+}", list[i].b_blocks - list[i].a_blocks)});
  return grid;
}

}  // namespace

std::vector<std::string> sentences(const Analysis& a) {
  std::vector<std::string> text;
  text.push_back(fmt::format("{} B allocated at the peak, {} B asked for; {}{}",
                             grouped(a.peak_allocated), grouped(a.peak_requested),
                             a.peak_event >= a.events ? std::string("when the snapshot was taken")
                             : a.peak_event < 0
                                 ? std::string("when the history begins")
                                 : fmt::format("event {} of {}, in {}", grouped(a.peak_event),
                                               grouped(a.events), a.peak_phase),
                             a.peak_where.empty() ? "" : ", at " + a.peak_where));
  if (a.devices.size() > 1) {
    std::string others;
    for (const snapshot::DeviceSummary& d : a.devices)
      others += fmt::format("{}device {}: {}", others.empty() ? "" : ", ", d.device,
                            size(d.peak_allocated));
    text.push_back("Peaks by device: " + others + "; --device N shows another");
  }
  tell_out_of_memory(a, text);
  tell_fragmentation(a, text);
  return text;
}

std::vector<TitledGrid> grids(const Analysis& a, std::size_t rows) {
  std::vector<TitledGrid> list;
  list.push_back({"Live at the peak", category_grid(a)});
  list.push_back({"By source line", site_grid(a, rows)});
  list.push_back({"Steps: " + a.how_steps, step_grid(a, rows)});
  if (!a.fragmentation.pinned.empty())
    list.push_back({"Segments that are partly free when most is reserved", pinned_grid(a)});
  return list;
}

std::vector<TitledGrid> grids(const snapshot::Against& r, std::size_t rows) {
  std::vector<TitledGrid> list;
  list.push_back({"The plan beside the snapshot", beside_grid("", r.totals)});
  list.push_back({"At the peaks, by category", beside_grid("category", r.categories)});
  list.push_back({"Peak of each phase", beside_grid("phase", r.phases)});
  if (!r.only_measured.empty())
    list.push_back(
        {"Blocks that the plan has not", unmatched_grid("allocated at", r.only_measured, rows)});
  if (!r.only_planned.empty())
    list.push_back(
        {"Tensors that the snapshot has not", unmatched_grid("planned", r.only_planned, rows)});
  return list;
}

std::vector<std::string> sentences(const snapshot::Growth& g) {
  return {fmt::format("A: {}", g.a_origin), fmt::format("B: {}", g.b_origin),
          fmt::format("Device {}: allocated {} B -> {} B ({:+} B), reserved {} B -> {} B", g.device,
                      grouped(g.a_allocated), grouped(g.b_allocated), g.b_allocated - g.a_allocated,
                      grouped(g.a_reserved), grouped(g.b_reserved))};
}

std::vector<TitledGrid> grids(const snapshot::Growth& g, std::size_t rows) {
  std::vector<TitledGrid> list;
  if (!g.rows.empty())
    list.push_back({"What grew, by source line", growth_grid("allocated at", g.rows, rows)});
  if (!g.sizes.empty()) list.push_back({"What grew, by size", growth_grid("size", g.sizes, rows)});
  return list;
}

}  // namespace ac_advisor::reports
