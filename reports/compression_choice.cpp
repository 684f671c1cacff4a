// What `advise --grad-compression auto` found: a row a network, a column a hook.
#include "reports/compression_choice.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

using advise::CompressedStep;
using advise::CompressionChoice;
using advise::NetworkRow;

std::string milliseconds(const CompressedStep& step) {
  if (!step.refused.empty()) return "n/a";
  return fmt::format("{:.0f}{}", step.seconds * 1e3, step.fits ? "" : "!");
}

Grid grid_of(const CompressionChoice& c) {
  std::vector<std::string> head{"network", "Gbit/s"};
  for (const std::string& hook : c.hooks) head.push_back(hook);
  head.emplace_back("pays");
  Grid grid(head);
  for (const NetworkRow& row : c.rows) {
    std::vector<std::string> cells{row.network, row.gbps > 0 ? fmt::format("{:g}", row.gbps) : "-"};
    for (const CompressedStep& step : row.steps) cells.push_back(milliseconds(step));
    cells.push_back(row.best == 0 ? "-" : c.hooks[row.best]);
    grid.row(cells);
  }
  std::vector<std::string> peaks{"GiB", ""};
  for (std::size_t i = 0; i < c.hooks.size(); ++i)
    peaks.push_back(c.memory[i].peak_reserved > 0 ? gib(c.memory[i].peak_reserved) : "n/a");
  peaks.emplace_back("");
  grid.row(peaks);
  return grid;
}

/// What the marks of a table's cells mean, where it has some.
std::string marks(const CompressionChoice& c) {
  std::string text = "milliseconds per step, estimated; GiB: peak reserved\n";
  for (std::size_t i = 0; i < c.hooks.size(); ++i)
    if (const std::string& why = c.rows.front().steps[i].refused; !why.empty())
      text += fmt::format("n/a: {}: {}\n", c.hooks[i], why);
  for (const CompressedStep& step : c.rows.front().steps)
    if (step.refused.empty() && !step.fits) return text + "!: does not fit\n";
  return text;
}

}  // namespace

std::string table(const CompressionChoice& c, const Style& style) {
  return wrap(c.answer, style.width) + "\n" + grid_of(c).text(style.color, style.width) +
         wrap(marks(c), style.width);
}

std::string markdown(const CompressionChoice& c) {
  return escape_markdown(c.answer) + "\n\n" + grid_of(c).markdown() + "\n" +
         escape_markdown(marks(c)) + "\n";
}

std::string csv(const CompressionChoice& c) {
  Grid grid({"network", "gbps", "grad_compression", "step_seconds_estimate", "peak_allocated_bytes",
             "peak_reserved_bytes", "fits", "refused"});
  for (const NetworkRow& row : c.rows)
    for (std::size_t i = 0; i < c.hooks.size(); ++i) {
      const CompressedStep& step = row.steps[i];
      grid.row({row.network, fmt::format("{:g}", row.gbps), c.hooks[i],
                fmt::format("{:.9g}", step.seconds), std::to_string(c.memory[i].peak_allocated),
                std::to_string(c.memory[i].peak_reserved), step.fits ? "true" : "false",
                step.refused});
    }
  return grid.csv();
}

std::string json(const CompressionChoice& c) {
  using Json = nlohmann::ordered_json;
  Json out;
  out["schema"] = compression_schema;
  out["answer"] = c.answer;
  out["rows"] = Json::array();
  for (const NetworkRow& row : c.rows) {
    Json line = {{"network", row.network},
                 {"network_gbps", row.gbps > 0 ? Json(row.gbps) : Json()},
                 {"pays", row.best == 0 ? Json() : Json(c.hooks[row.best])},
                 {"steps", Json::array()}};
    for (std::size_t i = 0; i < c.hooks.size(); ++i) {
      const CompressedStep& step = row.steps[i];
      const bool planned = step.refused.empty();
      line["steps"].push_back(
          {{"grad_compression", c.hooks[i]},
           {"step_seconds", planned ? Json(step.seconds) : Json()},
           {"peak_allocated_bytes", planned ? Json(c.memory[i].peak_allocated) : Json()},
           {"peak_reserved_bytes", planned ? Json(c.memory[i].peak_reserved) : Json()},
           {"fits", planned ? Json(step.fits) : Json()},
           {"refused", planned ? Json() : Json(step.refused)}});
    }
    out["rows"].push_back(std::move(line));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
