// A sweep's measurements read back, and put together where several jobs have made them.
#include "ac_advisor/reports/measured_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "reports/check_saved.hpp"

namespace ac_advisor::reports {
namespace {

constexpr const char* schema = "ac-advisor/measurements/1";
constexpr std::int64_t most_parts = 4096;

profile::Profile read_profile(const Node& node) {
  Document document = read_document(node.json.dump(), node.place);
  if (auto* found = std::get_if<profile::Profile>(&document.value)) return std::move(*found);
  throw UserError(node.place + " must be a profile");
}

std::vector<Measurement> read_rows(const Node& root, const char* key) {
  std::vector<Measurement> rows;
  for (const Json& item : root.list(key)) {
    const Node row{item, fmt::format("{}: \"{}[{}]\"", root.place, key, rows.size())};
    const Node measured = row.child("measured");
    rows.push_back({row.get<std::string>("label"), read_profile(measured.child("predicted")),
                    read_profile(measured)});
  }
  return rows;
}

/// What all parts of one sweep have in common, in words.
std::string step_of(const Measurements& part) {
  if (part.rows.empty()) return {};
  const profile::Profile& p = part.rows.front().predicted;
  return fmt::format("{}, batch {} x {}, {} ranks, {}", p.model.name, p.config.run.batch,
                     p.config.run.seq, p.config.layout.world, p.device_name);
}

/// Rows of all parts in their order: the k-th of part i is row k * parts + i.
std::vector<Measurement> in_order(const std::vector<const Measurements*>& parts,
                                  std::vector<Measurement> Measurements::*list) {
  std::size_t total = 0;
  for (const Measurements* part : parts) total += (part->*list).size();
  std::vector<Measurement> all;
  for (std::size_t row = 0; row < total; ++row) {
    const std::vector<Measurement>& own = parts[row % parts.size()]->*list;
    if (row / parts.size() >= own.size())
      throw UserError(
          fmt::format("part {} of {} has too few configurations: the parts are not of "
                      "one sweep; measure them with the same options",
                      row % parts.size(), parts.size()));
    all.push_back(own[row / parts.size()]);
  }
  return all;
}

}  // namespace

bool is_measured_sweep(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() && json.contains("rows") && json.contains("schema") &&
         json.at("schema") == schema;
}

Measurements read_measured_sweep(const std::string& text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, false);
  const Node root{json, origin};
  Measurements sweep{read_rows(root, "rows"), read_rows(root, "savings"), {}};
  if (!json.contains("part")) return sweep;
  const Node part = root.child("part");
  sweep.part = {part.get<std::int64_t>("index"), part.get<std::int64_t>("of")};
  if (sweep.part.of < 1 || sweep.part.of > most_parts || sweep.part.index < 0 ||
      sweep.part.index >= sweep.part.of)
    throw UserError(part.place + " must be a part \"index\" below \"of\"");
  return sweep;
}

Measurements joined(const std::vector<Measurements>& parts) {
  const std::int64_t of = parts.front().part.of;
  std::vector<const Measurements*> places(static_cast<std::size_t>(of), nullptr);
  std::string step;
  for (const Measurements& part : parts) {
    if (part.part.of != of)
      throw UserError(
          fmt::format("parts of {} and of {}: they are not of one sweep; give those "
                      "of one",
                      of, part.part.of));
    const Measurements*& place = places[static_cast<std::size_t>(part.part.index)];
    if (place != nullptr)
      throw UserError(
          fmt::format("part {} of {} is there twice; give each once", part.part.index, of));
    place = &part;
    const std::string own = step_of(part);
    if (step.empty()) step = own;
    if (!own.empty() && own != step)
      throw UserError(
          fmt::format("parts of \"{}\" and of \"{}\": they are not of one sweep; give "
                      "those of one",
                      step, own));
  }
  std::vector<std::int64_t> missing;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] == nullptr) missing.push_back(static_cast<std::int64_t>(i));
  if (!missing.empty())
    throw UserError(
        fmt::format("part {} of {} is missing: measure with --shard-of {}/{}, or give "
                    "its file",
                    fmt::join(missing, ", "), of, missing.front(), of));
  return {in_order(places, &Measurements::rows), in_order(places, &Measurements::savings), {}};
}

std::vector<Document> documents_of(const Measurements& sweep) {
  std::vector<Document> documents;
  for (const Measurement& row : sweep.rows) {
    documents.push_back({row.label, row.predicted});
    documents.push_back({row.label + ", measured", row.measured});
  }
  return documents;
}

}  // namespace ac_advisor::reports
