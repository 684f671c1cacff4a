// One case, its figures and its baseline: the verdicts. Nothing is read or planned here.
#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/gate/check.hpp"
#include "compare.hpp"
#include "limits.hpp"
#include "line_of.hpp"
#include "message.hpp"
#include "model/in_quotes.hpp"
#include "read_text.hpp"

namespace ac_advisor::gate {
namespace {

struct Judgement {
  const GateFile& file;
  const Case& c;
  const Baseline& now;
  const Baseline* base;                       ///< null: none, or of another schema
  std::vector<profile::FieldChange> changes;  ///< of the fingerprint; empty: figures compare
  const Settings& settings;
  const intake::Training* training = nullptr;  ///< null: the case is of no training file
};

/// The key of the training file that gives an option ("--seq"); null: none does.
const intake::Mapping* key_of(const Judgement& j, const std::string& option) {
  if (j.training == nullptr || !option.starts_with("--")) return nullptr;
  for (const intake::Mapping& m : j.training->mapping) {
    const std::string options = " " + m.options + " ";
    for (const std::string& name : {option, "--no-" + option.substr(2)})
      if (options.find(" " + name + " ") != std::string::npos &&
          options.find("by hand") == std::string::npos)
        return &m;
  }
  return nullptr;
}

const Waiver* waiver_of(const GateFile& file, const std::string& name, Figure figure) {
  for (const Waiver& waiver : file.waivers)
    if (waiver.case_name == name && waiver.figure == figure) return &waiver;
  return nullptr;
}

/// A verdict over its limit may be excused.
void apply_waiver(const Judgement& j, Verdict& v) {
  const Waiver* waiver = waiver_of(j.file, j.c.name, v.figure);
  if (waiver == nullptr) return;
  const bool holds = j.settings.today <= waiver->expires;
  v.outcome = holds ? Outcome::waived : Outcome::waiver_expired;
  const std::string day = to_string(waiver->expires), reason = model::in_quotes(waiver->reason);
  v.message = (holds ? fmt::format("waived until {} ({}): ", day, reason)
                     : fmt::format("the waiver expired on {} ({}): ", day, reason)) +
              v.message;
}

Verdict start(const Judgement& j, Figure figure, Check check, Level level) {
  Verdict v;
  v.check = check;
  v.figure = figure;
  v.level = level;
  v.now = j.now.figures[index(figure)];
  if (j.base != nullptr) v.baseline = j.base->figures[index(figure)];
  v.place = {j.file.origin, j.c.line};
  return v;
}

void settle(const Judgement& j, const Limit& limit, Verdict& v) {
  if (limit.level == Level::off) {
    v.outcome = Outcome::off;
  } else if (*v.now > *v.limit) {
    v.outcome = Outcome::exceeded;
    v.cause.fields = j.changes;
    name_growth(j.base, j.now, v.figure, v.cause);
    v.message = message::exceeded(v, limit);
    apply_waiver(j, v);
  } else if (v.check == Check::baseline && *v.now < *v.baseline) {
    v.outcome = Outcome::improved;
    v.message = message::improved(v);
    const FigureRow& of = row(v.figure);
    if (j.settings.tighten)
      v.message +=
          fmt::format(" Suggested baseline: \"{}\": {}; {} writes it.", of.json,
                      in_json_unit(of.unit, *v.now), message::update_command(j.file, j.c.name));
  }
}

/// The strictest level of the limits that need a baseline; off: none does.
Level baseline_level(const Case& c) {
  Level level = Level::off;
  for (const auto& limit : c.limits)
    if (limit && limit->regression) level = std::max(level, limit->level);
  return level;
}

/// Where the first of the fields stands: in the model's file, or in the gate's.
Place place_of(const Judgement& j, const std::vector<profile::FieldChange>& fields,
               const std::string& model_path) {
  const Place fallback{j.file.origin, j.c.line};
  if (fields.empty()) return fallback;
  const std::string& field = fields.front().field;
  if (const intake::Mapping* key = key_of(j, field))
    return {j.training->path, std::max(key->line, 1)};
  if (field.starts_with("--")) {
    const int line = line_of_key(j.file.text, field.substr(2), j.c.line, "name");
    return line > 0 ? Place{j.file.origin, line} : fallback;
  }
  if (field == "schema" || field == "op_table" || field == "profile_schema" || field == "case" ||
      field == "device_figures")
    return {baseline_path(j.file, j.c.name), 1};
  if (model_path.empty() || field == "model") return fallback;
  const auto text = read_text(model_path);
  const int line = text ? line_of_key(*text, field.substr(field.rfind('.') + 1)) : 0;
  return {model_path, std::max(line, 1)};
}

Verdict other_fingerprint(const Judgement& j, Level level, const std::string& model_path) {
  Verdict v;
  v.outcome = Outcome::other_fingerprint;
  v.level = level;
  v.place = place_of(j, j.changes, model_path);
  v.cause.fields = j.changes;
  if (j.base != nullptr) {
    v.now = j.now.figures[index(v.figure)];
    v.baseline = j.base->figures[index(v.figure)];
    name_growth(j.base, j.now, v.figure, v.cause);
  }
  v.message = message::other_fingerprint(j.file, j.c, v);
  if (const intake::Mapping* key = j.changes.empty() ? nullptr : key_of(j, j.changes[0].field))
    v.message += message::training_key(*j.training, *key);
  return v;
}

}  // namespace

std::vector<Verdict> judge(const GateFile& file, const Case& c, const Baseline& now,
                           const std::optional<Baseline>& base, const Settings& settings,
                           const std::string& model_path, const intake::Training* training) {
  Judgement j{file, c, now, nullptr, {}, settings, training};
  std::vector<Verdict> verdicts;
  const Level level = baseline_level(c);
  if (level != Level::off && !base) {
    Verdict v;
    v.outcome = Outcome::no_baseline;
    v.level = level;
    v.place = {file.origin, c.line};
    v.message = message::no_baseline(file, c);
    verdicts.push_back(std::move(v));
  } else if (level != Level::off) {
    j.changes = fingerprint_changes(*base, now);
    if (base->schema == now.schema) j.base = &*base;
    if (!j.changes.empty()) verdicts.push_back(other_fingerprint(j, level, model_path));
  }
  for (const FigureRow& of : figure_table()) {
    const auto& limit = c.limits[index(of.figure)];
    if (!limit) continue;
    if (limit->budget) {
      Verdict v = start(j, of.figure, Check::budget, limit->level);
      v.limit = limit->budget;
      settle(j, *limit, v);
      verdicts.push_back(std::move(v));
    }
    // Without a baseline of the same fingerprint its own verdict stands above.
    const bool comparable = j.base != nullptr && j.changes.empty();
    if (limit->regression && (comparable || limit->level == Level::off)) {
      Verdict v = start(j, of.figure, Check::baseline, limit->level);
      if (v.baseline) v.limit = allowed(*limit->regression, *v.baseline);
      settle(j, *limit, v);
      verdicts.push_back(std::move(v));
    }
  }
  return verdicts;
}

}  // namespace ac_advisor::gate
