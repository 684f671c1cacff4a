// What a machine can measure.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/reports/diagnosis.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

using Json = nlohmann::ordered_json;

const char* state(const trace::Check& check) {
  switch (check.state) {
    case trace::Check::State::fine:
      return "ok";
    case trace::Check::State::limited:
      return "limited";
    case trace::Check::State::missing:
      return "missing";
  }
  return "";
}

}  // namespace

std::string printable_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (at == 0 ? "" : "\n") + printable(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string table(const trace::Examination& e, const Style& style) {
  std::string text;
  for (const trace::Check& check : e.checks) {
    text +=
        wrap(printable(fmt::format("{:<9}{}: {}", state(check), check.name, check.found)) + "\n",
             style.width);
    if (!check.way_out.empty())
      text += wrap("what to do: " + printable(check.way_out) + "\n", style.width);
  }
  text += "\n" + bold("What can be measured here\n", style.color);
  for (const trace::Ability& a : e.abilities)
    text += wrap(printable(fmt::format("{:<4}{}{}", a.can ? "yes" : "no", a.what,
                                       a.can ? "" : " (" + a.why + ")")) +
                     "\n",
                 style.width);
  return text;
}

std::string markdown(const trace::Examination& e) {
  Grid checks({"check", "state", "found", "what to do"});
  for (const trace::Check& c : e.checks) checks.row({c.name, state(c), c.found, c.way_out});
  Grid abilities({"what can be measured here", "", "why not"});
  for (const trace::Ability& a : e.abilities)
    abilities.row({a.what, a.can ? "yes" : "no", a.can ? "" : a.why});
  return checks.markdown() + "\n" + abilities.markdown();
}

std::string csv(const trace::Examination& e) {
  Grid grid({"kind", "name", "state", "found", "way_out"});
  for (const trace::Check& c : e.checks) grid.row({"check", c.name, state(c), c.found, c.way_out});
  for (const trace::Ability& a : e.abilities)
    grid.row({"ability", a.what, a.can ? "yes" : "no", "", a.can ? "" : a.why});
  return grid.csv();
}

std::string json(const trace::Examination& e) {
  Json out;
  out["schema"] = "ac-advisor/doctor/1";
  out["checks"] = Json::array();
  for (const trace::Check& c : e.checks)
    out["checks"].push_back(
        {{"name", c.name}, {"state", state(c)}, {"found", c.found}, {"way_out", c.way_out}});
  out["abilities"] = Json::array();
  for (const trace::Ability& a : e.abilities)
    out["abilities"].push_back({{"what", a.what}, {"can", a.can}, {"why_not", a.can ? "" : a.why}});
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
