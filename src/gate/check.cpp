#include "ac_advisor/gate/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "ac_advisor/model/error.hpp"
#include "message.hpp"
#include "model/in_quotes.hpp"
#include "model/nearest.hpp"
#include "model_source.hpp"
#include "observe.hpp"
#include "read_text.hpp"

namespace ac_advisor::gate {
namespace {

namespace fs = std::filesystem;

void check_names(const GateFile& file, const std::vector<std::string>& only) {
  std::vector<std::string_view> names;
  for (const Case& c : file.cases) names.push_back(c.name);
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string_view near = model::nearest(name, names);
    throw UserError(fmt::format("--only {}: no case of that name in {}{}", model::in_quotes(name),
                                file.origin,
                                near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
}

bool wanted(const std::vector<std::string>& only, const std::string& name) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

/// The strictest level of a case's limits.
Level level_of(const Case& c) {
  Level level = Level::off;
  for (const auto& limit : c.limits)
    if (limit) level = std::max(level, limit->level);
  return level;
}

bool needs_baseline(const Case& c) {
  return std::any_of(c.limits.begin(), c.limits.end(), [](const auto& limit) {
    return limit && limit->regression && limit->level != Level::off;
  });
}

Verdict whole(const GateFile& file, const Case& c, Outcome outcome, std::string message) {
  Verdict v;
  v.outcome = outcome;
  v.level = level_of(c);
  v.message = std::move(message);
  v.place = {file.origin, c.line};
  return v;
}

Verdict bad_input(const GateFile& file, const Case& c, const UserError& error) {
  return whole(file, c, Outcome::bad_input, error.what());
}

/// What there is to judge; otherwise `result` has the verdict.
std::optional<Observation> observed(const GateFile& file, const Case& c,
                                    const capture::Settings& capture, CaseResult& result) {
  Observation seen = observe(file, c, capture);
  if (!seen.not_measured.empty()) {
    result.verdicts.push_back(whole(file, c, Outcome::not_measured, seen.not_measured));
    return std::nullopt;
  }
  if (!seen.other.empty()) {
    result.verdicts.push_back(
        whole(file, c, Outcome::other_fingerprint,
              fmt::format("the profile {} was measured with something else than the case has: {}. "
                          "Measure again, or correct the case.",
                          model::in_quotes(resolve_path(file, c.profile)),
                          message::changes(seen.other))));
    result.verdicts.back().cause.fields = seen.other;
    return std::nullopt;
  }
  result.figures = seen.now.figures;
  return seen;
}

/// A plan of a worse grade than the case asks for, and what its preset could not have.
void add_grade(const GateFile& file, const Case& c, const Observation& seen, CaseResult& result) {
  if (seen.evidence && seen.evidence->grade > c.require)
    result.verdicts.push_back(whole(
        file, c, Outcome::below_grade,
        fmt::format("\"require\" is \"{}\", and the plan is {}. Compare it with a run (ac-advisor "
                    "dryrun), or require \"{}\".",
                    evidence::to_string(c.require), evidence::sentence(*seen.evidence),
                    evidence::to_string(seen.evidence->grade))));
  for (const std::string& note : seen.gave_way)
    result.verdicts.push_back(whole(file, c, Outcome::passes, note));
}

CaseResult check_case(const GateFile& file, const Case& c, const Settings& settings) {
  CaseResult result{c.name, {}, {}};
  if (level_of(c) == Level::off) {
    result.verdicts.push_back(whole(file, c, Outcome::off, ""));
    return result;
  }
  try {
    const auto seen = observed(file, c, settings.capture, result);
    if (!seen) return result;
    std::optional<Baseline> base;
    const std::string path = baseline_path(file, c.name);
    if (needs_baseline(c))
      if (const auto text = read_text(path)) base = read_baseline(*text, path);
    result.verdicts = judge(file, c, seen->now, base, settings, seen->model_path,
                            seen->training ? &*seen->training : nullptr);
    add_grade(file, c, *seen, result);
  } catch (const UserError& error) {
    result.verdicts.push_back(bad_input(file, c, error));
  }
  return result;
}

/// Baselines whose case is gone: a gate that lost a case must not pass.
void add_missing_cases(const GateFile& file, Report& report) {
  std::set<std::string> names;
  for (const Case& c : file.cases) names.insert(c.name);
  const std::string folder = resolve_path(file, file.baselines);
  std::set<std::string> missing;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().stem().string();
    if (entry->path().extension() == ".json" && name.front() != '.' && names.count(name) == 0)
      missing.insert(name);
  }
  for (const std::string& name : missing) {
    const std::string path = baseline_path(file, name);
    Verdict v;
    v.outcome = Outcome::missing_case;
    v.place = {path, 1};
    v.message = fmt::format(
        "the case is missing: there is a baseline {} and no such case in {}. Put the case back, or "
        "remove the file too.",
        model::in_quotes(path), file.origin);
    report.cases.push_back({name, {}, {std::move(v)}});
  }
}

std::string rewrite_message(const Baseline& now, const std::optional<Baseline>& old) {
  if (!old || old->schema != now.schema)
    return "new: peak_allocated " + shown(Unit::bytes, now.figures[0]);
  std::string text;
  for (const FigureRow& of : figure_table()) {
    const std::int64_t a = old->figures[index(of.figure)], b = now.figures[index(of.figure)];
    if (a != b) text += (text.empty() ? "" : ", ") + message::moved(of.figure, a, b);
  }
  return text.empty() ? "the same figures, other details" : text;
}

}  // namespace

Report check(const GateFile& file, const Settings& settings) {
  check_names(file, settings.only);
  std::vector<const Case*> cases;
  for (const Case& c : file.cases)
    if (wanted(settings.only, c.name)) cases.push_back(&c);
  Report report{file.origin, std::vector<CaseResult>(cases.size())};
  // A program, also one that captures, is a child of the main thread, and has the machine for
  // itself.
  std::vector<char> alone;
  for (const Case* c : cases) alone.push_back(starts_a_program(file, *c, settings.capture));
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = 0; (i = next++) < cases.size();)
      if (!alone[i]) report.cases[i] = check_case(file, *cases[i], settings);
  };
  std::vector<std::future<void>> workers;
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(threads, cases.size()); ++i)
    workers.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& worker : workers) worker.get();
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (alone[i]) report.cases[i] = check_case(file, *cases[i], settings);
  if (settings.only.empty()) add_missing_cases(file, report);
  return report;
}

Update update(const GateFile& file, const std::vector<std::string>& only,
              const capture::Settings& capture) {
  check_names(file, only);
  Update result;
  result.problems.origin = file.origin;
  for (const Case& c : file.cases) {
    if (!wanted(only, c.name) || !needs_baseline(c)) continue;
    CaseResult problem{c.name, {}, {}};
    try {
      if (const auto seen = observed(file, c, capture, problem)) {
        Rewrite rewrite{baseline_path(file, c.name), to_json(seen->now), "", true};
        const auto old = read_text(rewrite.path);
        std::optional<Baseline> base;
        try {
          if (old) base = read_baseline(*old, rewrite.path);
        } catch (const UserError&) {
          // It is about to be replaced.
        }
        rewrite.changed = !old || *old != rewrite.text;
        rewrite.message =
            c.name + ": " + (rewrite.changed ? rewrite_message(seen->now, base) : "as it is");
        result.rewrites.push_back(std::move(rewrite));
      }
    } catch (const UserError& error) {
      problem.verdicts.push_back(bad_input(file, c, error));
    }
    if (!problem.verdicts.empty()) result.problems.cases.push_back(std::move(problem));
  }
  return result;
}

}  // namespace ac_advisor::gate
