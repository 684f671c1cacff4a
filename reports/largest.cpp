// What `advise --solve` found: a row a setting or a model, the most of it first.
#include "reports/largest.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

const char* word(advise::Sought sought) {
  constexpr const char* words[] = {"batch", "seq", "parameters"};
  return words[static_cast<std::size_t>(sought)];
}

Grid grid_of(const advise::Largest& l, std::size_t rows) {
  const bool model = l.sought == advise::Sought::model;
  Grid grid({model ? "model, fastest setting" : "setting", word(l.sought), "peak GiB",
             "reserved GiB", "est. tokens/s"});
  for (const advise::Found& f : l.found) {
    if (rows-- == 0) break;
    const bool fits = f.value > 0;
    grid.row({printable(f.label), fits ? grouped(f.value) : "none",
              gib(f.profile.memory.peak_allocated), gib(f.profile.memory.peak_reserved),
              fits ? fmt::format("{:.0f}", f.profile.time.tokens_per_second) : "-"});
  }
  return grid;
}

}  // namespace

std::string table(const advise::Largest& l, const Style& style) {
  std::string text = wrap(l.answer, 80) + "\n" + grid_of(l, style.rows).text(style.color);
  if (l.found.size() > style.rows)
    text += fmt::format("[{} others]\n", l.found.size() - style.rows);
  return text;
}

std::string markdown(const advise::Largest& l) {
  return escape_markdown(l.answer) + "\n\n" + grid_of(l, l.found.size()).markdown();
}

std::string csv(const advise::Largest& l) {
  Grid grid({"label", word(l.sought), "peak_allocated_bytes", "peak_reserved_bytes",
             "required_bytes", "usable_bytes", "tokens_per_second_estimate"});
  for (const advise::Found& f : l.found)
    grid.row({f.label, std::to_string(f.value), std::to_string(f.profile.memory.peak_allocated),
              std::to_string(f.profile.memory.peak_reserved),
              std::to_string(f.profile.fit.required), std::to_string(f.profile.fit.usable),
              fmt::format("{:.9g}", f.profile.time.tokens_per_second)});
  return grid.csv();
}

std::string json(const advise::Largest& l) {
  using Json = nlohmann::ordered_json;
  Json out;
  out["schema"] = largest_schema;
  out["sought"] = word(l.sought);
  out["answer"] = l.answer;
  out["rows"] = Json::array();
  for (const advise::Found& f : l.found) {
    Json row = Json::parse(profile::to_json(f.profile, -1));
    row["label"] = f.label;
    row["largest"] = f.value;
    out["rows"].push_back(std::move(row));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
