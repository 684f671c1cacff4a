#include <fstream>
#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/read.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

/// `recompute` of `kernels.bytes` in what `plan --format json` wrote.
trace::PredictedTraffic predicted_traffic(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw UserError("--plan " + file + ": cannot be read");
  const profile::Profile plan = profile::from_json(text.str(), file);
  constexpr std::size_t recompute = 3;
  static_assert(std::string_view(profile::phase_names[recompute]) == "recompute");
  if (!(plan.kernels.bytes[recompute] > 0))
    throw UserError("--plan " + file + ": this plan recomputes nothing; give the one of B's step");
  return {file, plan.kernels.bytes[recompute]};
}

}  // namespace

std::string run_diagnose(const Arguments& a) {
  const trace::TraceFile first = trace::read_trace(a.positional.at(0));
  std::optional<trace::PredictedTraffic> predicted;
  if (!a.plan.empty()) predicted = predicted_traffic(a.plan);
  return render(trace::diagnose(first, trace::read_trace(a.positional.at(1)), predicted), a.format,
                terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
