#include <algorithm>
#include <optional>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/snapshot.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "reports/changes.hpp"

namespace ac_advisor::cli {
namespace {

template <typename Value>
std::string rendered(const Value& value, const Arguments& a) {
  if (a.format == "html") return reports::html(value);
  return render(value, a.format, terminal_style(a.output, a.rows));
}

/// The plan to lay beside.
struct Beside {
  std::string words;  ///< the file, or MODEL and the options as they were typed
  profile::Profile profile;
  std::optional<OptionList> options;  ///< that give it; absent: it was read from a file
};

/// What `plan --format json` wrote, or one that is made of the options.
std::optional<Beside> plan_of(const Arguments& a) {
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
    return Beside{a.against, std::move(plan), std::nullopt};
  }
  if (a.model.empty()) return std::nullopt;
  const model::ModelSpec model = model::load_model(a.model, a.as);
  std::string words = a.model;
  for (const auto& [name, value] : a.options)
    words += " " + name + (value.empty() ? "" : " " + value);
  advise::Resolved resolved = resolve(model, a.options);
  profile::Profile planned = advise::plan(model, resolved);
  return Beside{words, std::move(planned), std::move(resolved.options)};
}

constexpr const char* with_model =
    "\nWhat makes it fit is planned beside a snapshot with --model MODEL and the step's options.\n";

/// Where the snapshot or the plan beside it is out of memory: the changes that `plan` would end
/// with, each of which also spares what the refused requests lacked.
std::string changes_of(const Arguments& a, const Beside& plan,
                       const std::vector<snapshot::OutOfMemory>& refused) {
  const profile::Profile& planned = plan.profile;
  if (refused.empty() && planned.fit.fits) return "";
  std::int64_t less = 0;
  if (planned.fit.fits)
    for (const snapshot::OutOfMemory& o : refused)
      less = std::max(less, o.requested - o.would_have_fitted_expandable);
  return "\n" +
         reports::changes_text(advise::changes_that_fit(planned.model, planned, plan.options, less),
                               planned.fit.fits, terminal_style(a.output, a.rows));
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
  const std::vector<snapshot::OutOfMemory> refused = analysis.out_of_memory;
  if (!plan)
    return rendered(analysis, a) + (a.format == "table" && !refused.empty() ? with_model : "");
  const std::string text =
      rendered(snapshot::against(std::move(analysis), plan->profile, plan->words), a);
  return a.format == "table" ? text + changes_of(a, *plan, refused) : text;
}

}  // namespace ac_advisor::cli
