#include "reports/html_data.hpp"

#include <algorithm>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/version.hpp"
#include "reports/command_line.hpp"
#include "reports/grids.hpp"
#include "reports/html_row.hpp"
#include "reports/largest.hpp"
#include "reports/trace_bars.hpp"
#include "reports/trace_grids.hpp"
#include "reports/verdict.hpp"

namespace ac_advisor::reports {
namespace {

constexpr std::size_t most_rows = 1000;
constexpr std::size_t rows_of_lists = 25;  ///< kernels, ops, ranges of a trace
constexpr std::size_t most_detail_bytes = 400'000;

/// Gathers the page's data, a document at a time.
class Data {
 public:
  explicit Data(const Page& page) : page_(page) {
    out_["version"] = version;
    out_["phases"] = profile::phase_names;
    out_["categories"] = Json::array();
    for (std::size_t c = 0; c < profile::category_count; ++c)
      out_["categories"].push_back(to_string(static_cast<profile::Category>(c)));
    for (const char* list : {"files", "rows", "savings", "tables", "sentences", "bars", "about"})
      out_[list] = Json::array();
    out_["base"] = Json::object();
  }

  void add(const Document& document) {
    origin_ = document.origin;
    std::visit([&](const auto& value) { add(value); }, document.value);
  }

  void compare(const profile::Profile& a, const profile::Profile& b) {
    out_["pair"] = {0, 1};
    std::vector<profile::FieldChange> fields = profile::diff_fields(a.model, b.model);
    if (!fields.empty()) add_table("The models differ", field_grid(fields));
  }

  void compare(const SweepDiff& diff) { add(diff); }

  [[nodiscard]] Json take() {
    add_details();
    out_["notes"] = notes_.list();
    out_["leftOut"] = left_out_;
    if (!page_.model_argument.empty()) out_["model"] = shell_word(page_.model_argument);
    return std::move(out_);
  }

 private:
  void add(const profile::Profile& p) {
    add_file(p);
    const StepConfig& c = p.config;
    const std::string made =
        fmt::format("{} {} {}{} {} b{}", ac_option(c), loss_option(c), to_option(c.memory.kernels),
                    advise::split_label(c.layout), shard_option(c), c.run.batch);
    static_cast<void>(add_row(p, origin_.empty() ? made : origin_));
  }

  void add(const Explanation& e) {
    add(e.profile);
    for (const std::string& sentence : e.sentences) out_["sentences"].push_back(sentence);
    if (e.modules.kinds.empty()) return;
    add_table("Which modules to checkpoint first", module_grid(e.modules, e.profile.time.basis));
    out_["sentences"].push_back(module_note(e.modules));
  }

  void add(const advise::Sweep& sweep) {
    if (!sweep.rows.empty()) add_file(sweep.rows.front().profile);
    const std::size_t first = profiles_.size();
    const advise::Row* plain = sweep.recommended < sweep.rows.size()
                                   ? plain_row(sweep, sweep.rows[sweep.recommended])
                                   : nullptr;
    for (const advise::Row& row : sweep.rows) {
      Json* added = add_row(row.profile, row.label);
      if (added == nullptr) continue;
      (*added)["ranked"] = true;
      if (row.rank > 0) (*added)["rank"] = row.rank;
      if (!row.unavailable.empty()) (*added)["unavailable"] = true;  // "why" says why
      if (row.pareto) (*added)["pareto"] = true;
      if (row.largest_batch > 0) (*added)["mostBatch"] = row.largest_batch;
      if (row.largest_batch > 0 && !row.largest_batch_exact) (*added)["mostAtLeast"] = true;
      (*added)["why"] = row.why;
      if (&row == plain && !out_.contains("plain")) out_["plain"] = profiles_.size() - 1;
    }
    if (sweep.recommended < sweep.rows.size() && !out_.contains("recommended"))
      out_["recommended"] = first + sweep.recommended;
    if (out_["savings"].empty()) add_savings(sweep);
    if (const Grid grid = layout_grid(sweep); !grid.rows().empty())
      add_table("Layouts, the best of each", grid);
    if (page_.documents.size() > 1) return;
    for (const std::string& note :
         {batch_note(sweep), unavailable_note(sweep), not_planned_note(sweep), layout_note(sweep)})
      if (!note.empty()) out_["sentences"].push_back(note);
  }

  void add_savings(const advise::Sweep& sweep) {
    for (const advise::Saving& s : sweep.savings) {
      Json saving{{"technique", technique_name(s)},
                  {"peak", s.peak_bytes},
                  {"saved", s.saved_bytes},
                  {"share", s.saved_share},
                  {"step", s.step_seconds}};
      for (const Detail& d : page_.details) {
        if (!(d.profile.config == s.config) || find(d.profile) < profiles_.size()) continue;
        static_cast<void>(add_row(d.profile, s.technique));  // not one that was ranked
      }
      for (std::size_t i = 0; i < profiles_.size(); ++i)
        if (profiles_[i]->config == s.config && profiles_[i]->memory.peak_allocated == s.peak_bytes)
          saving["row"] = i;
      out_["savings"].push_back(std::move(saving));
    }
  }

  /// Each setting, or model, with the most of what was sought.
  void add(const advise::Largest& l) {
    for (const advise::Found& f : l.found) {
      if (l.rows_differ() || &f == &l.found.front()) add_file(f.profile);
      Json* added = add_row(f.profile, f.label);
      if (added == nullptr) continue;
      if (!f.unavailable.empty()) (*added)["unavailable"] = true;
      if (l.sought != advise::Sought::batch || f.value == 0) continue;
      (*added)["mostBatch"] = f.value;
      if (!f.exact) (*added)["mostAtLeast"] = true;
    }
    add_table("The largest that fits", largest_grid(l, most_rows));
    if (const std::string note = marks(l); !note.empty()) out_["sentences"].push_back(note);
  }

  void add(const profile::Diff& d) {
    if (!d.fields.empty()) add_table("What differs", field_grid(d.fields));
    add_table("Memory", change_grid("GiB", d.totals, true));
    add_table("At the peak, by category", change_grid("GiB", d.categories, true));
    add_table("At the peak, by module", change_grid("GiB", d.modules, true));
    add_table("Peak of each phase", change_grid("GiB", d.phases, true));
    add_table("Launches", change_grid("phase", d.launches, false));
    add_table("Dispatches", change_grid("phase", d.dispatches, false));
  }

  void add(const SweepDiff& d) {
    if (!d.fields.empty()) add_table("What differs", field_grid(d.fields));
    add_table("Configurations, largest change first", row_change_grid(d, most_rows));
  }

  void add(const Trace& trace) {
    add_table("What checkpointing does with each op", trace_grid(trace));
    for (const std::string& reason : trace_reasons(trace)) out_["sentences"].push_back(reason);
  }

  void add(const trace::Summary& s) {
    const std::string file = s.origin.empty() ? origin_ : s.origin;
    out_["about"].push_back(
        fmt::format("{} ({}{})", file, s.source, s.device.empty() ? "" : ", " + s.device));
    add_trace(s, grids(s, rows_of_lists));
  }

  void add(const RankSummaries& ranks) {
    out_["about"].push_back(fmt::format("{}: {} ranks", ranks.origin, ranks.each.size()));
    add_trace(ranks.together, grids(ranks.together));
  }

  void add(const trace::Diagnosis& d) {
    for (const trace::Side* side : {&d.a, &d.b})
      out_["about"].push_back(fmt::format("{}: {} ({}{})", side == &d.a ? "A" : "B", side->origin,
                                          side->source,
                                          side->device.empty() ? "" : ", " + side->device));
    add_trace(d, grids(d));
  }

  template <typename Value>
  void add_trace(const Value& value, const std::vector<TitledGrid>& tables) {
    out_["traces"] = true;
    for (const Bars& bars : trace_bars(value)) out_["bars"].push_back(bars_json(bars));
    for (const std::string& sentence : sentences(value)) out_["sentences"].push_back(sentence);
    for (const TitledGrid& table : tables) {
      add_table(table.title, table.grid);
      if (table.left_out > 0) out_["tables"].back()["leftOut"] = table.left_out;
    }
  }

  void add_table(const std::string& title, const Grid& grid) {
    Json table{{"title", title}, {"head", grid.head()}, {"rows", grid.rows()}};
    Json& rows = table["rows"];
    if (rows.size() > most_rows) {
      table["leftOut"] = rows.size() - most_rows;
      rows.erase(rows.begin() + most_rows, rows.end());
    }
    out_["tables"].push_back(std::move(table));
  }

  void add_file(const profile::Profile& p) {
    Json file{{"model", p.model.name},
              {"parameters", p.parameters},
              {"device", p.device_name},
              {"tool", p.tool_version}};
    if (!origin_.empty()) file["name"] = origin_;
    out_["files"].push_back(std::move(file));
  }

  /// Null where the page is full.
  [[nodiscard]] Json* add_row(const profile::Profile& p, const std::string& label) {
    if (profiles_.size() >= most_rows) {
      ++left_out_;
      return nullptr;
    }
    if (profiles_.empty()) {
      base_ = p.config;
      for (const profile::Field& field : profile::config_fields(base_))
        std::visit([&](const auto& value) { out_["base"][field.name] = value; }, field.value);
    }
    Json row = row_json(p, base_, notes_);
    row["label"] = label;
    row["file"] = out_["files"].size() - 1;
    out_["rows"].push_back(std::move(row));
    profiles_.push_back(&p);
    return &out_["rows"].back();
  }

  [[nodiscard]] std::size_t find(const profile::Profile& p) const {
    const auto same = [&](const profile::Profile* q) {
      return q->config == p.config && q->source == p.source &&
             q->memory.peak_allocated == p.memory.peak_allocated;
    };
    return static_cast<std::size_t>(std::find_if(profiles_.begin(), profiles_.end(), same) -
                                    profiles_.begin());
  }

  void add_details() {
    std::size_t bytes = 0;
    const auto give = [&](std::size_t i, Json detail) {
      Json& row = out_["rows"][i];
      if (row.contains("detail")) return;
      Json settings = settings_json(*profiles_[i]);
      bytes += detail.dump(-1, ' ', false, Json::error_handler_t::replace).size();
      bytes += settings.dump(-1, ' ', false, Json::error_handler_t::replace).size();
      if (bytes > most_detail_bytes) return;
      row["detail"] = std::move(detail);
      row["settings"] = std::move(settings);
    };
    for (const Detail& d : page_.details)
      if (const std::size_t i = find(d.profile); i < profiles_.size()) give(i, detail_json(d));
    for (std::size_t i = 0; i < profiles_.size() && bytes < most_detail_bytes; ++i)
      if (!profiles_[i]->memory.timeline.empty()) give(i, detail_json(*profiles_[i]));
  }

  const Page& page_;
  Json out_;
  Sentences notes_;
  StepConfig base_;
  std::string origin_;
  std::vector<const profile::Profile*> profiles_;  ///< of the rows, in order
  std::size_t left_out_ = 0;
};

std::string verdict_of(const Document& d) {
  return std::visit([](const auto& value) { return verdict(value); }, d.value);
}

}  // namespace

const profile::Profile* profile_of(const Document& document) {
  if (const auto* e = std::get_if<Explanation>(&document.value)) return &e->profile;
  return std::get_if<profile::Profile>(&document.value);
}

Json page_data(const Page& page) {
  Data data(page);
  for (const Document& document : page.documents) data.add(document);
  if (page.documents.size() == 2) {
    const Document &first = page.documents[0], &second = page.documents[1];
    const profile::Profile *a = profile_of(first), *b = profile_of(second);
    if (a != nullptr && b != nullptr) data.compare(*a, *b);
    const auto* sweep_a = std::get_if<advise::Sweep>(&first.value);
    const auto* sweep_b = std::get_if<advise::Sweep>(&second.value);
    if (sweep_a != nullptr && sweep_b != nullptr) data.compare(diff(*sweep_a, *sweep_b));
  }
  return data.take();
}

std::string page_verdict(const Page& page) {
  if (page.documents.size() == 2) {
    const Document &first = page.documents[0], &second = page.documents[1];
    const profile::Profile *a = profile_of(first), *b = profile_of(second);
    if (a != nullptr && b != nullptr) return verdict(*a, *b);
    const auto* sweep_a = std::get_if<advise::Sweep>(&first.value);
    const auto* sweep_b = std::get_if<advise::Sweep>(&second.value);
    if (sweep_a != nullptr && sweep_b != nullptr) return verdict(diff(*sweep_a, *sweep_b));
  }
  std::string text;
  for (const Document& document : page.documents) {
    const bool named = page.documents.size() > 1;
    text +=
        (text.empty() ? "" : "\n") + (named ? document.origin + ": " : "") + verdict_of(document);
  }
  return text;
}

std::string page_title(const Page& page) {
  std::string text;
  for (const Document& document : page.documents) {
    std::string name = document.origin;
    if (const profile::Profile* p = profile_of(document)) name = p->model.name;
    if (const auto* sweep = std::get_if<advise::Sweep>(&document.value)) name = sweep->model.name;
    if (const auto* l = std::get_if<advise::Largest>(&document.value))
      name = l->sought == advise::Sought::model || l->found.empty()
                 ? "sample models"
                 : l->found.front().profile.model.name;
    if (const auto* d = std::get_if<trace::Diagnosis>(&document.value))
      name = d->a.origin + " and " + d->b.origin;
    if (const auto* s = std::get_if<trace::Summary>(&document.value)) name = s->origin;
    if (const auto* r = std::get_if<RankSummaries>(&document.value)) name = r->origin;
    if (text.find(name) == std::string::npos) text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace ac_advisor::reports
