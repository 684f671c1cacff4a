#include "reports/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ac_advisor::reports {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
}

/// RFC 4180; a cell that a spreadsheet would run as a formula gets a leading apostrophe.
std::string escape_csv(const std::string& text) {
  std::string cell = text;
  const bool formula = !cell.empty() && !is_number(cell) &&
                       std::string("=@+-\t\r").find(cell.front()) != std::string::npos;
  if (formula) cell.insert(cell.begin(), '\'');
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string cut(const std::string& text, std::size_t width) {
  if (columns(text) <= width) return text;
  std::string kept;
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size() && used + 1 < width;) {
    std::size_t next = i + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0U) == 0x80U) ++next;
    kept += text.substr(i, next - i);
    i = next;
    ++used;
  }
  return kept + "…";
}

std::string escape_markdown(const std::string& text) {
  std::string safe;
  for (char c : printable(text)) {
    if (std::string("|\\`*_<>[]#~$").find(c) != std::string::npos) safe += '\\';
    safe += c == '&' ? "&amp;" : std::string(1, c);
    if (c == '@') safe += "<!-- -->";  // or GitHub tells the user of that name
  }
  return safe;
}

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string Grid::text(bool color, std::size_t width) const {
  std::vector<std::size_t> widths(head_.size(), 0);
  const auto measure = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], columns(printable(cells[i])));
  };
  measure(head_);
  for (const auto& cells : rows_) measure(cells);
  std::size_t line_width = widths.empty() ? 0 : 2 * (widths.size() - 1);
  for (std::size_t w : widths) line_width += w;
  for (; line_width > width; --line_width) --*std::max_element(widths.begin(), widths.end());
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string cell = cut(printable(cells[i]), widths[i]);
      const std::string pad(widths[i] - std::min(widths[i], columns(cell)), ' ');
      out += i == 0 ? cell + pad : "  " + pad + cell;
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  };
  std::string out = bold(line(head_), color);
  for (const auto& cells : rows_) out += line(cells);
  return out;
}

std::string Grid::markdown() const {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out = "|";
    for (const std::string& cell : cells) out += " " + escape_markdown(cell) + " |";
    return out + "\n";
  };
  std::string out = line(head_) + "|";
  for (std::size_t i = 0; i < head_.size(); ++i) out += i == 0 ? "---|" : "---:|";
  out += "\n";
  for (const auto& cells : rows_) out += line(cells);
  return out;
}

std::string Grid::csv() const {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) out += (i > 0 ? "," : "") + escape_csv(cells[i]);
    return out + "\r\n";
  };
  std::string out = line(head_);
  for (const auto& cells : rows_) out += line(cells);
  return out;
}

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

std::string signed_gib(std::int64_t bytes) {
  return fmt::format("{:+.3f}", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return ms >= 100 ? fmt::format("{:.0f}", ms) : fmt::format("{:.3g}", ms);
}

std::string bold(const std::string& text, bool color) {
  if (!color) return text;
  const bool newline = !text.empty() && text.back() == '\n';
  return "\033[1m" + text.substr(0, text.size() - (newline ? 1 : 0)) + "\033[0m" +
         (newline ? "\n" : "");
}

}  // namespace ac_advisor::reports
