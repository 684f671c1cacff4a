#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_compare(const Arguments& arguments) {
  const std::string &a = arguments.positional.at(0), &b = arguments.positional.at(1);
  const reports::Page page{{reports::read_document(read_saved_file(a), a),
                            reports::read_document(read_saved_file(b), b)},
                           {},
                           ""};
  const auto rendered = [&](auto diff) {
    if (arguments.format == "html") return reports::html(page);
    diff.a_origin = a;
    diff.b_origin = b;
    return render(diff, arguments.format, terminal_style(arguments.output, arguments.rows));
  };
  const auto* a_sweep = std::get_if<advise::Sweep>(&page.documents[0].value);
  const auto* b_sweep = std::get_if<advise::Sweep>(&page.documents[1].value);
  if (a_sweep != nullptr && b_sweep != nullptr) return rendered(reports::diff(*a_sweep, *b_sweep));
  const profile::Profile* a_profile = reports::profile_of(page.documents[0]);
  const profile::Profile* b_profile = reports::profile_of(page.documents[1]);
  if (a_profile != nullptr && b_profile != nullptr)
    return rendered(profile::diff(*a_profile, *b_profile));
  throw UserError("compare: give two profiles (plan) or two sweeps (advise), not one of each");
}

}  // namespace ac_advisor::cli
