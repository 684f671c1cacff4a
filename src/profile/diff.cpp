#include "ac_advisor/profile/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "ac_advisor/profile/config_fields.hpp"

namespace ac_advisor::profile {
namespace {

void add(std::vector<Change>& list, std::string name, std::int64_t a, std::int64_t b) {
  if (a != 0 || b != 0) list.push_back({std::move(name), a, b});
}

std::vector<Change> by_phase(const std::array<std::int64_t, 5>& a,
                             const std::array<std::int64_t, 5>& b) {
  std::vector<Change> list;
  for (std::size_t i = 0; i < phase_names.size(); ++i) add(list, phase_names[i], a[i], b[i]);
  return list;
}

std::vector<Change> by_module(const Memory& a, const Memory& b) {
  std::set<std::string> names;
  for (const auto& [name, bytes] : a.at_peak_by_module) names.insert(name);
  for (const auto& [name, bytes] : b.at_peak_by_module) names.insert(name);
  const auto bytes_of = [](const Memory& m, const std::string& name) {
    const auto found = m.at_peak_by_module.find(name);
    return found == m.at_peak_by_module.end() ? 0 : found->second;
  };
  std::vector<Change> list;
  for (const std::string& name : names) add(list, name, bytes_of(a, name), bytes_of(b, name));
  std::stable_sort(list.begin(), list.end(), [](const Change& x, const Change& y) {
    return std::llabs(x.delta()) > std::llabs(y.delta());
  });
  return list;
}

std::vector<FieldChange> differing(const std::vector<Field>& a, const std::vector<Field>& b,
                                   const char* prefix) {
  std::vector<FieldChange> list;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i]))
      list.push_back({prefix + a[i].name, to_string(a[i].value), to_string(b[i].value)});
  return list;
}

std::string where(const Memory& m) {
  if (m.peak_op.empty()) return m.peak_phase;
  return fmt::format("{}, {} of {}", m.peak_phase, m.peak_op, m.peak_module);
}

}  // namespace

std::vector<FieldChange> diff_fields(const StepConfig& a, const StepConfig& b) {
  return differing(config_fields(a), config_fields(b), "");
}

std::vector<FieldChange> diff_fields(const model::ModelSpec& a, const model::ModelSpec& b) {
  return differing(model_fields(a), model_fields(b), "model.");
}

namespace {

/// Neither the field nor what holds it is absent.
bool has(const Profile& p, const std::string& path) {
  for (std::size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1))
    if (!p.has(path.substr(0, end))) return false;
  return p.has(path);
}

/// Where one profile does not tell the loss from the forward, or what is computed again from the
/// backward, the other's are put together too.
Profile with_told_phases(const Profile& p, const Profile& other) {
  constexpr std::size_t forward = 0, loss = 1, backward = 2, recompute = 3;
  Profile out = p;
  const auto join = [&](std::size_t part, std::size_t whole) {
    const std::string peaks = std::string("memory.peak_by_phase.") + phase_names[part];
    if (has(p, peaks) && has(other, peaks)) return;
    auto& peak = out.memory.peak_by_phase;
    auto& launches = out.kernels.launches;
    peak[whole] = std::max(peak[whole], peak[part]);
    launches[whole] += launches[part];
    peak[part] = launches[part] = 0;
  };
  join(loss, forward);
  join(recompute, backward);
  return out;
}

}  // namespace

Diff diff(const Profile& a_as_written, const Profile& b_as_written) {
  const Profile a = with_told_phases(a_as_written, b_as_written),
                b = with_told_phases(b_as_written, a_as_written);
  Diff d;
  d.a_origin = "A";
  d.b_origin = "B";
  // What one of them has not measured has no difference.
  const auto both = [&](const char* path) { return has(a, path) && has(b, path); };
  if (both("memory.peak_allocated_bytes"))
    add(d.totals, "peak_allocated", a.memory.peak_allocated, b.memory.peak_allocated);
  if (both("memory.peak_reserved_bytes"))
    add(d.totals, "peak_reserved", a.memory.peak_reserved, b.memory.peak_reserved);
  if (both("memory.peak_excluding_workspace_bytes"))
    add(d.totals, "peak_excluding_workspace", a.memory.peak_excluding_workspace,
        b.memory.peak_excluding_workspace);
  if (both("memory.first_step_peak_bytes"))
    add(d.totals, "first_step_peak", a.memory.first_step_peak, b.memory.first_step_peak);
  if (both("memory.resident_bytes"))
    add(d.totals, "resident", a.memory.resident, b.memory.resident);
  if (both("memory.at_peak"))
    for (std::size_t i = 0; i < category_count; ++i)
      add(d.categories, to_string(static_cast<Category>(i)), a.memory.at_peak[i],
          b.memory.at_peak[i]);
  if (both("memory.at_peak_by_module")) d.modules = by_module(a.memory, b.memory);
  if (both("memory.peak_by_phase"))
    d.phases = by_phase(a.memory.peak_by_phase, b.memory.peak_by_phase);
  if (both("kernels.launches")) d.launches = by_phase(a.kernels.launches, b.kernels.launches);
  if (both("kernels.dispatches"))
    d.dispatches = by_phase(a.kernels.dispatches, b.kernels.dispatches);
  if (both("time")) {
    d.a_step_seconds = a.time.step;
    d.b_step_seconds = b.time.step;
  }
  d.a_peak = where(a.memory);
  d.b_peak = where(b.memory);
  if (both("config")) d.fields = diff_fields(a.config, b.config);
  if (both("model"))
    for (FieldChange& change : diff_fields(a.model, b.model)) d.fields.push_back(std::move(change));
  const auto note = [&](const char* name, const std::string& x, const std::string& y) {
    if (x != y) d.fields.push_back({name, x, y});
  };
  note("device", a.device_name, b.device_name);
  note("source", a.source, b.source);
  note("tool_version", a.tool_version, b.tool_version);
  return d;
}

}  // namespace ac_advisor::profile
