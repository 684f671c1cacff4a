#include <fstream>
#include <sstream>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/read.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

constexpr std::size_t recompute = 3;
static_assert(std::string_view(profile::phase_names[recompute]) == "recompute");

profile::Profile read_plan(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw UserError("--plan " + file + ": cannot be read");
  return profile::from_json(text.str(), file);
}

trace::Prediction prediction(const std::string& origin, const profile::Profile& b) {
  if (!(b.kernels.bytes[recompute] > 0))
    throw UserError(origin + ": this plan recomputes nothing; give the one of B's step");
  trace::Prediction p;
  p.origin = origin;
  p.recompute_bytes = b.kernels.bytes[recompute];
  p.recompute_seconds = b.time.recompute;
  p.step_seconds = b.time.step;
  p.basis = profile::time_word(b.time.basis);
  return p;
}

/// From --plan, or from --model and the options of B's step; empty where neither was given.
std::optional<trace::Prediction> predict(const Arguments& a) {
  if (!a.plans.empty() && !a.model.empty()) throw UserError("--plan and --model: give one of them");
  if (a.plans.size() > 2)
    throw UserError("--plan: give it once, for B's step, or twice, for A's and then for B's");
  if (!a.plans.empty()) {
    trace::Prediction p = prediction("--plan " + a.plans.back(), read_plan(a.plans.back()));
    if (a.plans.size() == 2) p.overhead_seconds = p.step_seconds - read_plan(a.plans[0]).time.step;
    return p;
  }
  if (a.model.empty()) {
    if (!a.options.empty())
      throw UserError(a.options.front().first + ": is of the plan; give --model MODEL too");
    return std::nullopt;
  }
  const model::ModelSpec model = model::load_model(a.model, a.as);
  OptionList without = a.options;
  std::erase_if(without, [](const auto& option) {
    return option.first == "--ac" || option.first == "--ac-scope";
  });
  without.emplace_back("--ac", "none");
  trace::Prediction p =
      prediction("plan " + a.model, advise::plan(model, resolve(model, a.options).config));
  p.overhead_seconds =
      p.step_seconds - advise::plan(model, advise::resolve(model, without).config).time.step;
  return p;
}

}  // namespace

std::string run_diagnose(const Arguments& a) {
  // What is wrong with the plan is told before gigabytes are read.
  const std::optional<trace::Prediction> predicted = predict(a);
  const trace::TraceFile first = trace::read_trace(a.positional.at(0));
  trace::Diagnosis diagnosis =
      trace::diagnose(first, trace::read_trace(a.positional.at(1)), predicted);
  if (a.format == "html") return reports::html({{{"", std::move(diagnosis)}}, {}, ""});
  return render(diagnosis, a.format, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
