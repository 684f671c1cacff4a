#include "message.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/in_quotes.hpp"

namespace ac_advisor::gate::message {
namespace {

using model::plain;
using profile::Change;

std::string percent(std::int64_t change, std::int64_t of) {
  if (of == 0) return "";
  return fmt::format("{:+.2f} %", 100.0 * static_cast<double>(change) / static_cast<double>(of));
}

/// Launches' and times' categories are phases.
Unit unit_of_parts(Figure figure) {
  const Unit unit = row(figure).unit;
  return unit == Unit::millionths ? Unit::nanoseconds : unit;
}

/// "activations +2.900 GiB and, by module, blocks +2.900 GiB"
std::string parts(const Cause& cause, Figure figure, bool growth) {
  const Unit unit = unit_of_parts(figure);
  const auto one = [&](const Change& c) {
    return plain(c.name) + " " + (growth ? shown_change(unit, c.delta()) : shown(unit, c.b));
  };
  std::string text;
  if (cause.category) text = one(*cause.category);
  if (cause.module) text += (text.empty() ? "" : "; by module, ") + one(*cause.module);
  return text;
}

std::string allowance(const Regression& regression, Unit unit) {
  std::string text;
  if (regression.percent_millionths)
    text = fmt::format("{:g} %", static_cast<double>(*regression.percent_millionths) / 1e6);
  if (regression.absolute)
    text += (text.empty() ? "" : " and ") + shown(unit, *regression.absolute);
  return text;
}

}  // namespace

std::string update_command(const GateFile& file, const std::string& case_name) {
  const std::string config =
      file.origin == "ac-advisor.json" ? "" : " --config " + plain(file.origin);
  return "ac-advisor check" + config + " --update --only " + case_name;
}

std::string changes(const std::vector<profile::FieldChange>& fields) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(fields.size(), most); ++i)
    text += fmt::format("{}{} {} → {}", i == 0 ? "" : ", ", plain(fields[i].field),
                        plain(fields[i].a), plain(fields[i].b));
  if (fields.size() > most) text += fmt::format(" and {} more", fields.size() - most);
  return text;
}

std::string moved(Figure figure, std::int64_t base, std::int64_t now) {
  const Unit unit = row(figure).unit;
  if (base == now) return fmt::format("{} {} as before", row(figure).name, shown(unit, now));
  const std::string share = percent(now - base, base);
  return fmt::format("{} {} → {} ({}{})", row(figure).name, shown(unit, base), shown(unit, now),
                     shown_change(unit, now - base), share.empty() ? "" : ", " + share);
}

std::string exceeded(const Verdict& v, const Limit& limit) {
  const Unit unit = row(v.figure).unit;
  if (v.check == Check::budget) {
    const bool growth = v.baseline.has_value();
    const std::string why = parts(v.cause, v.figure, growth);
    std::string text =
        fmt::format("{} {} is {} over the budget of {}.", row(v.figure).name, shown(unit, *v.now),
                    shown(unit, *v.now - *v.limit), shown(unit, *v.limit));
    if (!v.cause.fields.empty()) text += " Since the baseline: " + changes(v.cause.fields) + ".";
    if (!why.empty()) text += (growth ? " Most grew: " : " Largest: ") + why + ".";
    return text;
  }
  const std::string why = parts(v.cause, v.figure, true);
  return fmt::format(
      "{}: more than the allowed {} over the baseline.{} No option and no field of the model "
      "differs: the {} did.",
      moved(v.figure, *v.baseline, *v.now), allowance(*limit.regression, unit),
      why.empty() ? " No part of it grew." : " Most grew: " + why + ".",
      why.empty() ? "baseline" : "planner, the measurement or the baseline");
}

std::string improved(const Verdict& v) {
  return moved(v.figure, *v.baseline, *v.now) + ": better than the baseline.";
}

std::string no_baseline(const GateFile& file, const Case& c) {
  return fmt::format("there is no baseline {}. Run {} and commit the file.",
                     plain(baseline_path(file, c.name)), update_command(file, c.name));
}

std::string other_fingerprint(const GateFile& file, const Case& c, const Verdict& v) {
  std::string effect;
  if (v.now && v.baseline) {
    effect = " " + moved(v.figure, *v.baseline, *v.now);
    const std::string why = parts(v.cause, v.figure, true);
    effect += *v.now > *v.baseline && !why.empty() ? ", most in " + why + "." : ".";
  }
  return fmt::format(
      "the baseline {} is of another configuration: {}.{} If intended, run {} "
      "and commit the file.",
      plain(baseline_path(file, c.name)), changes(v.cause.fields), effect,
      update_command(file, c.name));
}

std::string training_key(const intake::Training& training, const intake::Mapping& key) {
  if (key.line > 0)
    return fmt::format(" {}:{} has {}: {}.", plain(training.path), key.line, plain(key.key),
                       plain(key.value));
  return fmt::format(" {} leaves {} at {}'s default, {}.", plain(training.path), plain(key.key),
                     training.tool, plain(key.value));
}

}  // namespace ac_advisor::gate::message
