#include "observe.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/advise/training_model.hpp"
#include "ac_advisor/model/error.hpp"
#include "compare.hpp"
#include "json/node.hpp"
#include "model/in_quotes.hpp"
#include "model_source.hpp"
#include "observe_emulated.hpp"
#include "read_text.hpp"

namespace ac_advisor::gate {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 46;  // 64 TiB, of one rank
constexpr std::int64_t most_launches = std::int64_t{1} << 53;

/// A file's figures are added up and subtracted below: none may be absurd.
void check_range(const profile::Profile& p, const std::string& origin) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(origin + ": " + what + "; is this a profile that ac-advisor wrote?");
  };
  const auto bytes = [&](const char* what, std::int64_t n) {
    if (n < 0 || n > most_bytes) refuse(fmt::format("{} {} are no bytes of a GPU", what, n));
  };
  bytes("peak_allocated_bytes", p.memory.peak_allocated);
  bytes("peak_reserved_bytes", p.memory.peak_reserved);
  for (const std::int64_t n : p.memory.at_peak) bytes("at_peak", n);
  for (const auto& [module, n] : p.memory.at_peak_by_module) bytes("at_peak_by_module", n);
  for (const std::int64_t n : p.kernels.launches)
    if (n < 0 || n > most_launches) refuse(fmt::format("launches {} are no count", n));
  const auto seconds = [&](double s) {
    if (!(s >= 0 && s <= 1e9)) refuse(fmt::format("{} are no seconds of a step", s));
  };
  seconds(p.time.step);
  seconds(p.time.recompute);
  for (const double s : p.time.by_phase) seconds(s);
  if (p.time.recompute > p.time.step) refuse("recompute_seconds are more than step_seconds");
}

/// Limited figures that a profile has not; recomputation of no time is a figure too.
std::string missing_figures(const Case& c, const profile::Profile& p) {
  const Figures figures = figures_of(p);
  std::string missing;
  for (const FigureRow& of : figure_table()) {
    const auto& limit = c.limits[index(of.figure)];
    const Figure needed = of.figure == Figure::recompute_share ? Figure::step_seconds : of.figure;
    if (limit && limit->level != Level::off && figures[index(needed)] == 0)
      missing += (missing.empty() ? "" : ", ") + std::string(of.name);
  }
  return missing;
}

/// What the case says of the model and of options must be so in the profile.
std::vector<profile::FieldChange> other_than_said(const Case& c, const ModelSource* source,
                                                  const profile::Profile& p) {
  std::vector<profile::FieldChange> other;
  if (source != nullptr)
    for (const auto& change :
         field_changes(profile::model_fields(source->spec), profile::model_fields(p.model)))
      if (change.field != "name" && change.field != "parameters")
        other.push_back({"model." + change.field, change.a, change.b});
  if (c.options.empty()) return other;
  StepConfig said = source == nullptr ? resolve_options(c.options)
                                      : advise::resolve(source->spec, c.options).config;
  // Who ran it and what its solver chose is not the case's to say.
  for (const OptionRow& row : option_table())
    if (!row.on_command_line()) row.set(row, row.get(p.config), said);
  for (const auto& change :
       field_changes(profile::config_fields(said), profile::config_fields(p.config)))
    other.push_back({option_of_field(change.field), change.a, change.b});
  return other;
}

Observation observe_measured(const GateFile& file, const Case& c,
                             const capture::Settings& capture) {
  Observation result;
  const std::string path = resolve_path(file, c.profile);
  const auto text = read_text(path);
  if (!text) {
    result.not_measured = fmt::format(
        "there is no profile {}. Measure it on a GPU and let ac-advisor measure write "
        "it (--format json --output {}).",
        model::in_quotes(path), model::in_quotes(path));
    return result;
  }
  static_cast<void>(json::parse_document(*text, path));  // bounded, and with lines in its errors
  const profile::Profile p = profile::from_json(*text, path);
  if (p.source != "measured")
    throw UserError(
        fmt::format("{}: \"source\": {} must be \"measured\"; a planned profile is no "
                    "measurement",
                    path, model::in_quotes(p.source)));
  check_range(p, path);
  if (const std::string missing = missing_figures(c, p); !missing.empty()) {
    result.not_measured = fmt::format("the profile {} has no {}: measure again with what it needs.",
                                      model::in_quotes(path), missing);
    return result;
  }
  if (!c.model.empty()) {
    const ModelSource source = load_model_source(file, c, capture);
    result.model_path = source.path;
    result.other = other_than_said(c, &source, p);
  } else {
    result.other = other_than_said(c, nullptr, p);
  }
  result.now = make_baseline(c, p, {});
  return result;
}

/// The case with the model and the options of its training file, under those of its own.
Case with_training(const Case& c, const intake::Training& training) {
  Case planned = c;
  planned.options = training.options;
  planned.options.insert(planned.options.end(), c.options.begin(), c.options.end());
  if (!c.model.empty()) return planned;
  planned.model = advise::training_model(training);
  std::error_code error;  // beside the training file, not the gate's
  if (std::filesystem::exists(planned.model, error))
    planned.model = std::filesystem::absolute(planned.model, error).string();
  return planned;
}

intake::Training training_of(const GateFile& file, const Case& c) {
  return intake::read_training(
      {resolve_path(file, c.training), c.tool, c.options, c.ignore, c.model});
}

}  // namespace

bool starts_a_program(const GateFile& file, const Case& c, const capture::Settings& capture) {
  if (c.command) return true;
  if (c.training.empty()) return needs_capture(file, c, capture);
  try {
    return needs_capture(file, with_training(c, training_of(file, c)), capture);
  } catch (const UserError&) {
    return false;  // the case itself tells it
  }
}

Observation observe(const GateFile& file, const Case& c, const capture::Settings& capture) {
  if (c.measured()) return observe_measured(file, c, capture);
  if (c.command) return observe_emulated(file, c);
  Observation result;
  Case said = c;
  if (!c.training.empty()) {
    result.training = training_of(file, c);
    said = with_training(c, *result.training);
  }
  ModelSource source = load_model_source(file, said, capture);
  result.model_path = source.path;
  const advise::Resolved resolved = advise::resolve(source.spec, said.options);
  const profile::Profile planned = advise::plan(source.spec, resolved);
  result.evidence = planned.evidence;
  result.gave_way = resolved.notes;
  result.now = make_baseline(said, planned, std::move(source.fields));
  return result;
}

}  // namespace ac_advisor::gate
