#include "ac_advisor/reports/sweep_diff.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace ac_advisor::reports {
namespace {

RowChange::Side side(const advise::Row& row) {
  return {row.profile.memory.peak_allocated, row.profile.time.step, row.rank};
}

}  // namespace

SweepDiff diff(const advise::Sweep& a, const advise::Sweep& b) {
  SweepDiff d;
  d.a_origin = "A";
  d.b_origin = "B";
  d.fields = profile::diff_fields(a.base, b.base);
  for (profile::FieldChange& f : profile::diff_fields(a.model, b.model))
    d.fields.push_back(std::move(f));
  std::map<std::string, std::size_t> at;
  for (const advise::Row& row : a.rows) {
    at.emplace(row.label, d.rows.size());
    d.rows.push_back({row.label, side(row), std::nullopt});
  }
  for (const advise::Row& row : b.rows) {
    const auto found = at.find(row.label);
    if (found != at.end())
      d.rows[found->second].b = side(row);
    else
      d.rows.push_back({row.label, std::nullopt, side(row)});
  }
  std::stable_sort(d.rows.begin(), d.rows.end(), [](const RowChange& x, const RowChange& y) {
    return std::llabs(x.delta()) > std::llabs(y.delta());
  });
  d.a_recommendation = a.recommendation;
  d.b_recommendation = b.recommendation;
  return d;
}

}  // namespace ac_advisor::reports
