#include "ac_advisor/gate/check.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "gate/read_text.hpp"

namespace ac_advisor::cli {
namespace {

namespace fs = std::filesystem;

std::string read_config(const std::string& path) {
  if (auto text = gate::read_text(path)) return *std::move(text);
  throw UserError(path + ": no such file; ac-advisor check --init writes a first one");
}

/// Whole or not at all; the folder is made where it is missing.
void write_file(const std::string& text, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  try {
    write_output(text, path);
  } catch (const UserError& problem) {
    const std::string what = problem.what(), option = "--output ";
    throw UserError(what.starts_with(option) ? what.substr(option.size()) : what);
  }
}

std::string initialise(const Arguments& a) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(a.config, error)))
    throw UserError(a.config + ": is there already; edit it, or remove it first");
  const std::string model = a.positional.empty() ? std::string() : a.positional.front();
  write_file(gate::first_gate_file(a.config, {model, a.as, a.options, capture_settings(a)}),
             a.config);
  return a.config + ": written; edit the case and its limits, then ac-advisor check --update\n";
}

int update(const gate::GateFile& file, const Arguments& a, std::string& text) {
  const gate::Update update = gate::update(file, a.only, capture_settings(a));
  for (const gate::Rewrite& rewrite : update.rewrites) {
    if (rewrite.changed) write_file(rewrite.text, rewrite.path);
    text += rewrite.path + ": " + rewrite.message + "\n";
  }
  if (update.rewrites.empty() && update.problems.cases.empty())
    text += file.origin + ": no case limits a regression, so there is no baseline to write\n";
  if (!update.problems.cases.empty())
    std::fputs(reports::table(update.problems, {}).c_str(), stderr);
  return gate::exit_code(update.problems);
}

using Renderer = std::function<std::string(const gate::Report&)>;

Renderer renderer(const Arguments& a) {
  static const std::map<std::string, Renderer> renderers{
      {"json", [](const gate::Report& r) { return reports::json(r); }},
      {"md", [](const gate::Report& r) { return reports::markdown(r); }},
      {"junit", reports::junit},
      {"github", reports::github},
      {"gitlab", reports::gitlab},
      {"bencher", reports::bencher},
  };
  if (a.format == "table")
    return [style = terminal_style(a.output, a.rows)](const gate::Report& r) {
      return reports::table(r, style);
    };
  const auto found = renderers.find(a.format);
  if (found == renderers.end())
    throw UserError("--format " + a.format +
                    ": must be table, json, md, junit, github, gitlab or bencher");
  return found->second;
}

/// The job's page shows what is appended to this file:
/// docs.github.com, "Workflow commands", "Adding a job summary".
void append_step_summary(const gate::Report& report) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return;
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << reports::markdown(report) << "\n";
  if (!file.flush())
    std::fprintf(stderr, "ac-advisor: GITHUB_STEP_SUMMARY %s cannot be written to\n", path);
}

}  // namespace

Result run_check(const Arguments& a) {
  const Renderer render_report = renderer(a);
  Result result;
  if (!a.init && (!a.positional.empty() || !a.options.empty() || !a.as.empty()))
    throw UserError(
        "check: MODEL and the options of a step are of check --init, for a first case; "
        "afterwards they stand in " +
        a.config);
  if (a.init) result.text = initialise(a);
  if (a.init && !a.update) return result;
  const gate::GateFile file = gate::parse_gate_file(read_config(a.config), a.config);
  if (a.update) {
    result.exit_code = update(file, a, result.text);
    return result;
  }
  const gate::Settings settings{
      a.today.empty() ? gate::today() : gate::parse_date(a.today, "--today"), a.only, a.tighten,
      capture_settings(a)};
  const gate::Report report = gate::check(file, settings);
  if (a.format == "github") append_step_summary(report);
  if (!a.output.empty()) std::fputs(reports::table(report, {}).c_str(), stderr);
  return {render_report(report), gate::exit_code(report)};
}

}  // namespace ac_advisor::cli
