// What `advise --solve` found: a row a setting or a model, the most of it first.
#include "reports/largest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reports/check_saved.hpp"
#include "reports/headline.hpp"

namespace ac_advisor::reports {
namespace {

constexpr const char* words[] = {"batch", "seq", "parameters", "completion", "world", "gpu"};
constexpr std::size_t markdown_rows = 50;  // far below what a comment may hold

const char* word(advise::Sought sought) { return words[static_cast<std::size_t>(sought)]; }

const char* first_heading(advise::Sought sought) {
  if (sought == advise::Sought::model) return "model, fastest setting";
  const bool least = sought == advise::Sought::world || sought == advise::Sought::gpu;
  return least ? "the fastest setting" : "setting";
}

const char* heading(advise::Sought sought) {
  if (sought == advise::Sought::world) return "GPUs";
  return sought == advise::Sought::gpu ? "GPU's GiB" : word(sought);
}

}  // namespace

Grid largest_grid(const advise::Largest& l, std::size_t rows) {
  Grid grid(
      {first_heading(l.sought), heading(l.sought), "peak GiB", "reserved GiB", "est. tokens/s"});
  for (const advise::Found& f : l.found) {
    if (rows-- == 0) break;
    const bool fits = f.value > 0;
    grid.row({printable(f.label) + (f.unavailable.empty() ? "" : " (n/a)"),
              l.sought == advise::Sought::gpu ? gib(f.value)
              : fits                          ? grouped(f.value) + (f.capped  ? "*"
                                                                    : f.exact ? ""
                                                                              : "+")
                                              : "none",
              gib(f.profile.memory.peak_allocated), gib(f.profile.memory.peak_reserved),
              fits ? grouped(static_cast<std::int64_t>(f.profile.time.tokens_per_second)) : "-"});
  }
  return grid;
}

std::string marks(const advise::Largest& l) {
  const auto lacks = [](const advise::Found& f) { return !f.unavailable.empty(); };
  const auto lacking = std::find_if(l.found.begin(), l.found.end(), lacks);
  std::string text;
  if (lacking != l.found.end())
    text = fmt::format("n/a: not supported by {} ({})\n", l.base.runtime.framework,
                       printable(lacking->unavailable));
  if (std::any_of(l.found.begin(), l.found.end(), [](const auto& f) { return !f.exact; }))
    text += "+: at least; a larger one may fit\n";
  if (std::any_of(l.found.begin(), l.found.end(), [](const auto& f) { return f.capped; }))
    text += "*: the model has no more positions (max_position_embeddings); memory is left\n";
  for (const advise::NotPlanned& one : l.left_out)
    text += printable(one.technique) + ": " + printable(one.why) + "\n";
  return text;
}

std::string table(const advise::Largest& l, const Style& style) {
  const bool some = std::any_of(l.found.begin(), l.found.end(),
                                [](const advise::Found& f) { return f.value > 0; });
  std::string text =
      marked(some, l.answer, style) + largest_grid(l, style.rows).text(style.color, style.width);
  if (l.found.size() > style.rows)
    text += fmt::format("… {} more (--rows N)\n", l.found.size() - style.rows);
  return text + wrap(marks(l), style.width);
}

std::string markdown(const advise::Largest& l) {
  std::string text = escape_markdown(l.answer) + "\n\n" + largest_grid(l, markdown_rows).markdown();
  if (l.found.size() > markdown_rows)
    text += fmt::format("\n{} others\n", l.found.size() - markdown_rows);
  return text + (marks(l).empty() ? "" : "\n" + escape_markdown(marks(l)) + "\n");
}

std::string csv(const advise::Largest& l) {
  Grid grid({"label", word(l.sought), "peak_allocated_bytes", "peak_reserved_bytes",
             "required_bytes", "usable_bytes", "tokens_per_second_estimate", "exact",
             "unavailable"});
  for (const advise::Found& f : l.found)
    grid.row({f.label, std::to_string(f.value), std::to_string(f.profile.memory.peak_allocated),
              std::to_string(f.profile.memory.peak_reserved),
              std::to_string(f.profile.fit.required), std::to_string(f.profile.fit.usable),
              fmt::format("{:.9g}", f.profile.time.tokens_per_second), f.exact ? "true" : "false",
              f.unavailable});
  return grid.csv();
}

std::string json(const advise::Largest& l) {
  Json out;
  out["schema"] = largest_schema;
  out["sought"] = word(l.sought);
  out["answer"] = l.answer;
  out["rows"] = Json::array();
  for (const advise::Found& f : l.found) {
    Json row = Json::parse(profile::to_json(f.profile, -1));
    row["label"] = f.label;
    row["largest"] = f.value;
    row["largest_exact"] = f.exact;
    row["largest_capped"] = f.capped;
    row["unavailable"] = f.unavailable.empty() ? Json() : Json(f.unavailable);
    out["rows"].push_back(std::move(row));
  }
  out["left_out"] = Json::array();
  for (const advise::NotPlanned& one : l.left_out)
    out["left_out"].push_back({{"model", one.technique}, {"why", one.why}});
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

advise::Largest largest_from_json(const std::string& text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, false);
  const Node root{json, origin};
  const auto sought = root.get<std::string>("sought");
  const auto* const named = std::find(std::begin(words), std::end(words), sought);
  if (named == std::end(words))
    throw UserError(fmt::format(
        "{}: \"sought\" is {}; expected batch, seq, parameters, completion, world or gpu", origin,
        printable(sought.substr(0, 60))));
  advise::Largest l;
  l.sought = static_cast<advise::Sought>(named - words);
  l.answer = root.get<std::string>("answer");
  for (const Json& item : root.list("rows")) {
    const Node row{item, fmt::format("{}: \"rows[{}]\"", origin, l.found.size())};
    check_model(row.child("model"));
    advise::Found f{row.get<std::string>("label"),
                    check_count(row.get<std::int64_t>("largest"), row.place),
                    profile::from_json(item.dump(), row.place),
                    row.get<bool>("largest_exact"),
                    row.get_or<std::string>("unavailable", ""),
                    row.get_newer<bool>("largest_capped", false)};
    check_profile(f.profile, row.place);
    l.found.push_back(std::move(f));
  }
  if (json.contains("left_out"))
    for (const Json& item : root.list("left_out")) {
      const Node one{item, fmt::format("{}: \"left_out[{}]\"", origin, l.left_out.size())};
      l.left_out.push_back({one.get<std::string>("model"), one.get<std::string>("why")});
    }
  if (!l.found.empty()) l.base = l.found.front().profile.config;
  return l;
}

}  // namespace ac_advisor::reports
