// What differs between a baseline and now, in the words of config.json and of the command line.
#include "compare.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "ac_advisor/model/option_table.hpp"
#include "model_source.hpp"

namespace ac_advisor::gate {
namespace {

using profile::Change;
using profile::Field;
using profile::FieldChange;
using Texts = std::map<std::string, std::string>;

const char* const absent = "(absent)";

std::string field_of_option(const std::string& option) {
  const OptionRow* row = find_option("--" + option);
  return row == nullptr ? option : std::string(row->key);
}

std::string leaf(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// Keys whose texts are not the same on both sides.
std::vector<std::string> differing(const Texts& a, const Texts& b) {
  std::set<std::string> keys;
  for (const auto& [key, text] : a) keys.insert(key);
  for (const auto& [key, text] : b) keys.insert(key);
  std::vector<std::string> found;
  for (const std::string& key : keys) {
    const auto in_a = a.find(key), in_b = b.find(key);
    if (in_a == a.end() || in_b == b.end() || in_a->second != in_b->second) found.push_back(key);
  }
  return found;
}

std::string text_of(const Texts& texts, const std::string& key) {
  const auto found = texts.find(key);
  return found == texts.end() ? absent : found->second;
}

void add_options(const Baseline& base, const Baseline& now, std::vector<FieldChange>& out) {
  const auto resolved = field_changes(base.fingerprint.config, now.fingerprint.config);
  std::set<std::string> own;
  for (const std::string& option : differing(base.written.options, now.written.options))
    own.insert(field_of_option(option));
  std::vector<FieldChange> causes;
  for (const FieldChange& change : resolved)
    if (own.count(change.field) > 0) causes.push_back(change);
  // A preset's or the tool's own choice changed: then nothing was written otherwise.
  if (causes.empty()) causes = resolved;
  for (FieldChange& change : causes) {
    change.field = option_of_field(change.field);
    out.push_back(std::move(change));
  }
}

void add_model(const Baseline& base, const Baseline& now, std::vector<FieldChange>& out) {
  const auto figures = field_changes(base.fingerprint.model, now.fingerprint.model);
  if (figures.empty()) return;
  const bool another = base.written.model != now.written.model;
  if (another) out.push_back({"model", base.written.model, now.written.model});
  std::set<std::string> sources;
  for (const FieldChange& figure : figures) {
    std::istringstream words(sources_of(figure.field));
    for (std::string word; words >> word;) sources.insert(word);
  }
  bool found = false;
  for (const std::string& path : differing(base.written.fields, now.written.fields)) {
    if (sources.count(leaf(path)) == 0) continue;
    out.push_back({path, text_of(base.written.fields, path), text_of(now.written.fields, path)});
    found = true;
  }
  if (found || another) return;
  // No config.json says so: a measured profile, or the family's defaults changed with the tool.
  for (const FieldChange& figure : figures)
    if (figure.field != "parameters" || figures.size() == 1)
      out.push_back({"model." + figure.field, figure.a, figure.b});
}

const Change* largest(const std::vector<Change>& changes, bool growth) {
  const auto size = [&](const Change& c) { return growth ? c.delta() : c.b; };
  const auto found =
      std::max_element(changes.begin(), changes.end(),
                       [&](const Change& x, const Change& y) { return size(x) < size(y); });
  return found == changes.end() || size(*found) <= 0 ? nullptr : &*found;
}

std::vector<Change> seconds_by_phase(const profile::Profile& a, const profile::Profile& b) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i)
    changes.push_back({profile::phase_names[i],
                       from_json_unit(Unit::nanoseconds, a.time.by_phase[i]),
                       from_json_unit(Unit::nanoseconds, b.time.by_phase[i])});
  return changes;
}

}  // namespace

std::string option_of_field(const std::string& field) {
  const OptionRow* row = find_option_key(field);
  return row == nullptr || !row->on_command_line() ? field : std::string(row->name);
}

std::vector<FieldChange> field_changes(const std::vector<Field>& base,
                                       const std::vector<Field>& now) {
  // As text: a hand that writes 1 for 1.0 has changed nothing.
  const auto texts = [](const std::vector<Field>& fields) {
    Texts all;
    for (const Field& field : fields) all[field.name] = profile::to_string(field.value);
    return all;
  };
  const Texts a = texts(base), b = texts(now);
  std::vector<FieldChange> changes;
  for (const std::string& key : differing(a, b))
    changes.push_back({key, text_of(a, key), text_of(b, key)});
  return changes;
}

std::vector<FieldChange> fingerprint_changes(const Baseline& base, const Baseline& now) {
  if (base.schema != now.schema) return {{"schema", base.schema, now.schema}};
  std::vector<FieldChange> changes;
  add_options(base, now, changes);
  const bool other_options = !changes.empty();
  add_model(base, now, changes);
  const Fingerprint &a = base.fingerprint, &b = now.fingerprint;
  const auto add = [&](const char* name, const std::string& x, const std::string& y) {
    if (x != y) changes.push_back({name, x, y});
  };
  add("case", base.case_name, now.case_name);
  add("source", a.source, b.source);
  if (!other_options) add("device", a.device, b.device);
  // The same name, another content.
  if (a.device == b.device && !a.device_figures.empty() && !b.device_figures.empty())
    add("device_figures", a.device_figures, b.device_figures);
  add("profile_schema", a.profile_schema, b.profile_schema);
  add("op_table", a.op_table, b.op_table);
  return changes;
}

void name_growth(const Baseline* base, const Baseline& now, Figure figure, Cause& cause) {
  const bool growth = base != nullptr;
  const profile::Profile& before = growth ? base->parts : profile::Profile{};
  const auto keep = [&](const std::vector<Change>& changes, std::optional<Change>& into) {
    if (const Change* most = largest(changes, growth)) into = *most;
  };
  switch (row(figure).unit) {
    case Unit::bytes: {
      const profile::Diff diff = profile::diff(before, now.parts);
      keep(diff.categories, cause.category);
      keep(diff.modules, cause.module);
      return;
    }
    case Unit::launches:
      return keep(profile::diff(before, now.parts).launches, cause.category);
    case Unit::millionths:
    case Unit::nanoseconds:
      return keep(seconds_by_phase(before, now.parts), cause.category);
  }
}

}  // namespace ac_advisor::gate
