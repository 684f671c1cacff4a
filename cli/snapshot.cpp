#include <optional>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/snapshot.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

template <typename Value>
std::string rendered(const Value& value, const Arguments& a) {
  if (a.format == "html") return reports::html(value);
  return render(value, a.format, terminal_style(a.output, a.rows));
}

/// The plan to lay beside: what `plan --format json` wrote, or one that is made of the options.
std::optional<std::pair<std::string, profile::Profile>> plan_of(const Arguments& a) {
  if (!a.against.empty() && !a.model.empty())
    throw UserError("snapshot: --against or --model, one at a time");
  if (a.model.empty() && (!a.options.empty() || !a.as.empty()))
    throw UserError(
        "snapshot: " + (a.options.empty() ? std::string("--as") : a.options.front().first) +
        " is an option of the step that is planned beside the snapshot: give --model MODEL too");
  if (!a.against.empty()) {
    profile::Profile plan = profile::from_json(read_saved_file(a.against), a.against);
    if (!plan.has("model"))
      throw UserError("--against " + a.against +
                      ": has no model and configuration; give what plan --format json wrote");
    return std::pair(a.against, std::move(plan));
  }
  if (a.model.empty()) return std::nullopt;
  const model::ModelSpec model = model::load_model(a.model, a.as);
  std::string words = a.model;
  for (const auto& [name, value] : a.options)
    words += " " + name + (value.empty() ? "" : " " + value);
  return std::pair(words, advise::plan(model, resolve(model, a.options)));
}

}  // namespace

std::string run_snapshot(const Arguments& a) {
  const auto plan = plan_of(a);
  if (a.positional.size() == 2 && plan)
    throw UserError("snapshot: a plan is laid beside one snapshot, not two");
  snapshot::AnalyzeOptions options;
  if (a.device >= 0) options.device = static_cast<int>(a.device);
  const snapshot::Snapshot first = snapshot::read(a.positional.at(0));
  if (a.positional.size() == 2)
    return rendered(snapshot::growth(first, snapshot::read(a.positional[1]), options), a);
  snapshot::Analysis analysis = snapshot::analyze(first, options);
  if (!plan) return rendered(analysis, a);
  return rendered(snapshot::against(std::move(analysis), plan->second, plan->first), a);
}

}  // namespace ac_advisor::cli
