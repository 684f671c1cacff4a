// Two snapshots: what the second holds that the first did not.
#include <algorithm>
#include <map>

#include "ac_advisor/snapshot/analysis.hpp"
#include "categorize.hpp"
#include "stack_marks.hpp"
#include "walk.hpp"

namespace ac_advisor::snapshot {
namespace {

using Rows = std::map<std::pair<std::string, profile::Category>, Growth::Row>;

std::string size_words(Bytes size) { return "blocks of " + std::to_string(size) + " B"; }

void add(const Snapshot& snapshot, int device, bool second, Rows& sites, Rows& sizes) {
  const History history = history_of(snapshot, device);
  const Walk walk = walk_events(snapshot, history);
  const std::vector<std::uint16_t> marks = stack_marks(snapshot);
  const std::vector<profile::Category> kinds =
      categories(snapshot, history, find_steps(snapshot, history, marks, walk.live), marks);
  for (const Allocation* a : live_at(history, history.events)) {
    const auto category = kinds[static_cast<std::size_t>(a - history.allocations.data())];
    const auto count = [&](Rows& rows, const std::string& where) {
      Growth::Row& row = rows[{where, category}];
      row.where = where;
      row.category = category;
      (second ? row.b : row.a) += a->size;
      (second ? row.b_blocks : row.a_blocks) += 1;
    };
    count(sites, site(snapshot, a->stack));
    count(sizes, size_words(a->size));
  }
}

std::vector<Growth::Row> changed(Rows& rows) {
  std::vector<Growth::Row> list;
  for (auto& [key, row] : rows)
    if (row.a != row.b) list.push_back(std::move(row));
  std::stable_sort(list.begin(), list.end(), [](const Growth::Row& x, const Growth::Row& y) {
    return x.b - x.a > y.b - y.a;
  });
  return list;
}

}  // namespace

Growth growth(const Snapshot& a, const Snapshot& b, const AnalyzeOptions& options) {
  Growth g;
  g.a_origin = a.origin;
  g.b_origin = b.origin;
  AnalyzeOptions small = options;
  small.moments = 1;
  small.bars = 0;
  // The device of the second, which is the one that people ask about.
  g.device = analyze(b, small).device;
  Rows sites, sizes;
  add(a, g.device, false, sites, sizes);
  add(b, g.device, true, sites, sizes);
  const auto totals = [&](const Snapshot& s, Bytes& allocated, Bytes& reserved) {
    const History h = history_of(s, g.device);
    allocated = h.ended_allocated;
    reserved = h.ended_reserved;
  };
  totals(a, g.a_allocated, g.a_reserved);
  totals(b, g.b_allocated, g.b_reserved);
  g.rows = changed(sites);
  g.sizes = changed(sizes);
  return g;
}

}  // namespace ac_advisor::snapshot
