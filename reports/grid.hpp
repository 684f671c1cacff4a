#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/grouped.hpp"

namespace ac_advisor::reports {

using model::grouped;

/// A table of text: the first column flush left, the others flush right, columns two spaces apart.
class Grid {
 public:
  explicit Grid(std::vector<std::string> head) : head_(std::move(head)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines of at most `width` characters; the widest columns are cut to make them so.
  [[nodiscard]] std::string text(bool color, std::size_t width = 80) const;
  [[nodiscard]] std::string markdown() const;
  [[nodiscard]] std::string csv() const;
  [[nodiscard]] const std::vector<std::string>& head() const { return head_; }
  [[nodiscard]] const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
};

/// "7.290" GiB; "±" figures carry their sign.
[[nodiscard]] std::string gib(std::int64_t bytes);
[[nodiscard]] std::string signed_gib(std::int64_t bytes);
/// "41.3 %"
[[nodiscard]] std::string percent(double share);
/// Milliseconds with three significant digits.
[[nodiscard]] std::string milliseconds(double seconds);
/// ESC codes around text, where color is wanted.
[[nodiscard]] std::string bold(const std::string& text, bool color);
/// One line of text that a terminal only shows: no control or reordering characters, valid UTF-8.
[[nodiscard]] std::string printable(const std::string& text);
/// Text of a report in ASCII alone, as many columns wide: blocks as marks, "…" as "~".
[[nodiscard]] std::string ascii_only(const std::string& text);
/// `text` as it is in Markdown, one line.
[[nodiscard]] std::string escape_markdown(const std::string& text);
/// Lines of at most `width` characters, continued lines indented by two; longer words are cut up.
[[nodiscard]] std::string wrap(const std::string& text, std::size_t width);
/// At most `width` characters, the last of them "…" where there were more.
[[nodiscard]] std::string cut(const std::string& text, std::size_t width);
/// Number of characters on a terminal (UTF-8 code points).
[[nodiscard]] std::size_t columns(const std::string& text);

/// A table with its heading.
struct TitledGrid {
  std::string title;
  Grid grid;
  std::size_t left_out = 0;  ///< rows beyond those shown
};

}  // namespace ac_advisor::reports
