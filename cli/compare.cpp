#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/diff.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "reports/command_line.hpp"

namespace ac_advisor::cli {
namespace {

/// A result and what it is of: a file, or a setting.
struct Side {
  std::string origin;
  reports::Document document;
};

std::string rendered(const Arguments& a, const Side& first, const Side& second) {
  const auto written = [&](auto diff) {
    if (a.format == "html") return reports::html({{first.document, second.document}, {}, ""});
    diff.a_origin = first.origin;
    diff.b_origin = second.origin;
    return render(diff, a.format, terminal_style(a.output, a.rows));
  };
  const auto* a_sweep = std::get_if<advise::Sweep>(&first.document.value);
  const auto* b_sweep = std::get_if<advise::Sweep>(&second.document.value);
  if (a_sweep != nullptr && b_sweep != nullptr) return written(reports::diff(*a_sweep, *b_sweep));
  const profile::Profile* a_profile = reports::profile_of(first.document);
  const profile::Profile* b_profile = reports::profile_of(second.document);
  if (a_profile != nullptr && b_profile != nullptr)
    return written(profile::diff(*a_profile, *b_profile));
  throw UserError("compare: give two profiles (plan) or two sweeps (advise), not one of each");
}

Side saved(const std::string& file) {
  return {file, reports::read_document(read_saved_file(file), file)};
}

/// MODEL with these options, planned.
Side planned(const Arguments& a, const OptionList& options) {
  Arguments one = a;
  one.options = options;
  const model::ModelSpec model = load_model(one);
  const std::string origin =
      a.positional.front() + (options.empty() ? "" : " ") + reports::command_line(options);
  return {origin, {origin, advise::plan(model, resolve(model, options))}};
}

}  // namespace

std::string run_compare(const Arguments& a) {
  if (a.positional.size() == 2) {
    if (!a.options.empty() || !a.as.empty())
      throw UserError(
          "compare " + a.positional[0] + " " + a.positional[1] +
          ": options of a step are of compare MODEL OPTIONS -- OPTIONS; saved files have theirs");
    return rendered(a, saved(a.positional[0]), saved(a.positional[1]));
  }
  if (!a.other)
    throw UserError("compare " + a.positional.front() +
                    ": needs a second file, or for a MODEL -- and the other setting's options: "
                    "ac-advisor compare llama-3.2-1b --batch 8 -- --ac full");
  OptionList second = a.options;
  second.insert(second.end(), a.other->begin(), a.other->end());
  return rendered(a, planned(a, a.options), planned(a, second));
}

}  // namespace ac_advisor::cli
