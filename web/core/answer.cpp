#include "answer.hpp"

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/version.hpp"
#include "model/hub_models.hpp"
#include "model/options_preset.hpp"
#include "reports/html_data.hpp"

namespace ac_advisor::web {
namespace {

using reports::Json;

struct Step {
  model::ModelSpec model;
  advise::Resolved resolved;
  std::string argument;  ///< MODEL of the command line
};

Step step_of(const Json& asked) {
  Step step;
  const Json& model = asked.at("model");
  const std::string as = asked.value("as", "");
  if (model.contains("sample")) {
    step.argument = model.at("sample").get<std::string>();
    step.model = model::load_model(step.argument, as);
  } else {
    step.argument = model.at("origin").get<std::string>();
    step.model = model::parse_config(model.at("text").get<std::string>(), step.argument,
                                     model.at("name").get<std::string>(), as);
  }
  OptionList by_hand;
  for (const Json& option : asked.at("options"))
    by_hand.emplace_back(option.at(0).get<std::string>(), option.at(1).get<std::string>());
  step.resolved = advise::resolve(step.model, by_hand);
  return step;
}

/// Free texts that only a list elsewhere knows: the page offers them.
Json offered(const OptionRow& row) {
  if (row.key == "gpu") return simulate::device_names();
  if (row.key == "framework") return options::framework_names();
  return Json(std::vector<std::string>(row.words.begin(), row.words.end()));
}

/// boolean, integer, number or string, as the schema of the configuration says.
const char* type_of(const OptionRow& row) {
  constexpr const char* types[] = {"boolean", "integer", "number", "string"};
  if (!row.words.empty()) return "string";  // a boolean's words: expandable_segments:True
  return types[row.get(StepConfig{}).index()];
}

Json settled(const StepConfig& config) {
  Json out = Json::object();
  for (const OptionRow& row : option_table())
    if (row.on_command_line()) out[row.name] = row.text(config);
  return out;
}

Json described_options() {
  Json groups = Json::array();
  for (std::size_t group = 0; group < option_group_count; ++group) {
    Json list = Json::array();
    for (const OptionRow& row : option_table()) {
      if (!row.on_command_line() || row.group != static_cast<OptionGroup>(group)) continue;
      Json option{{"name", row.name}, {"key", row.key},       {"metavar", row.metavar},
                  {"help", row.help}, {"type", type_of(row)}, {"words", offered(row)}};
      if (!row.off.empty()) option["off"] = row.off;
      if (row.most > row.least) option["range"] = {row.least, row.most};
      list.push_back(std::move(option));
    }
    if (!list.empty())
      groups.push_back({{"title", title_of(static_cast<OptionGroup>(group))}, {"options", list}});
  }
  Json needed = Json::array();
  for (const NeededOption& option : options_needed_by_most()) needed.push_back(option.name);
  return {{"version", version},
          {"groups", groups},
          {"needed", needed},
          {"settled", settled(resolve_options({}))},
          {"models", model::sample_names()},
          {"hub", model::hub_names()},
          {"families", model::known_families()}};
}

Json shown(const reports::Page& page, const StepConfig& config) {
  return {{"title", reports::page_title(page)},
          {"verdict", reports::page_verdict(page)},
          {"data", reports::page_data(page)},
          {"options", settled(config)}};
}

reports::Detail detail_of(const Step& step, const std::string& name) {
  reports::Detail detail = reports::detail(step.model, step.resolved.config, name);
  std::vector<std::string>& warnings = detail.profile.warnings;
  warnings.insert(warnings.begin(), step.resolved.notes.begin(), step.resolved.notes.end());
  return detail;
}

Json plan(const Step& step) {
  reports::Detail detail = detail_of(step, step.model.name);
  return shown({{{"", detail.profile}}, {std::move(detail)}, step.argument}, step.resolved.config);
}

advise::Sweep sweep_of(const Step& step, const Progress& progress) {
  return advise::advise_any(step.model, step.resolved,
                            [&](const advise::Resolved& around) {
                              advise::Space space =
                                  advise::space_around(step.model, around.config, around.options);
                              space.threads = 1;
                              space.progress = progress;
                              return space;
                            })
      .sweep;
}

Json sweep(const Step& step, const Progress& progress) {
  advise::Sweep result = sweep_of(step, progress);
  std::vector<reports::Detail> details = reports::details(result);
  return shown({{{"", std::move(result)}}, std::move(details), step.argument},
               step.resolved.config);
}

Json compare(const Step& a, const Step& b) {
  reports::Page page;
  for (const Step* step : {&a, &b}) {
    const std::string name = step == &a ? "A" : "B";
    page.details.push_back(detail_of(*step, name));
    page.documents.push_back({name, page.details.back().profile});
  }
  return shown(page, b.resolved.config);
}

Json answered(const Json& asked, const Progress& progress) {
  const std::string what = asked.at("do").get<std::string>();
  if (what == "options") return described_options();
  if (what == "compare") return compare(step_of(asked.at("a")), step_of(asked.at("b")));
  const Step step = step_of(asked);
  if (what == "plan") return plan(step);
  if (what == "sweep") return sweep(step, progress);
  if (what == "json" && asked.value("sweep", false))
    return {{"text", reports::json(sweep_of(step, progress))}};
  if (what == "json")
    return {{"text", reports::json(advise::plan(step.model, step.resolved.config))}};
  throw std::invalid_argument("\"do\" is none of options, plan, sweep, compare and json");
}

}  // namespace

std::string answer(const std::string& request, const Progress& progress) {
  Json out;
  try {
    out = answered(Json::parse(request), progress);
  } catch (const UserError& error) {
    out["error"] = error.what();
  } catch (const std::exception& error) {  // the page's mistake, or no memory left
    out["error"] = std::string("this page: ") + error.what();
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ac_advisor::web
