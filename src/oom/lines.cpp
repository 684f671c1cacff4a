#include "lines.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ac_advisor::oom {
namespace {

constexpr std::size_t most_bytes = 4096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Colours and what redraws a line go; so do control characters.
std::string plain(std::string_view raw) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const auto c = static_cast<unsigned char>(raw[i]);
    if (c == 0x1B && i + 1 < raw.size() && raw[i + 1] == '[') {
      i += 2;
      while (i < raw.size() && (static_cast<unsigned char>(raw[i]) < 0x40)) ++i;
    } else if (c == '\t') {
      out += "    ";
    } else if (c >= 0x20 && c != 0x7F) {
      out += raw[i];
    }
  }
  return out;
}

std::size_t skip_spaces(std::string_view s, std::size_t at) {
  while (at < s.size() && s[at] == ' ') ++at;
  return at;
}

std::int64_t number_at(std::string_view s, std::size_t at) {
  std::int64_t n = -1;
  std::from_chars(s.data() + at, s.data() + s.size(), n);
  return n;
}

/// After "[rank3]:" or "[default3]:", which torch and torchrun write; `at` where it is not.
std::size_t after_rank(std::string_view s, std::size_t at, std::int64_t& rank) {
  for (const std::string_view word : {"[rank", "[default"}) {
    if (!s.substr(at).starts_with(word)) continue;
    std::size_t end = at + word.size();
    while (end < s.size() && is_digit(s[end])) ++end;
    if (end == at + word.size() || !s.substr(end).starts_with("]:")) continue;
    rank = number_at(s, at + word.size());
    return skip_spaces(s, end + 2);
  }
  return at;
}

/// After Ray's "(WorkerDict pid=123, ip=10.0.0.1)" and vLLM's "(EngineCore_0 pid=123)".
std::size_t after_actor(std::string_view s, std::size_t at) {
  if (at >= s.size() || s[at] != '(') return at;
  const std::size_t end = s.find(')', at);
  if (end == std::string_view::npos || end - at > 160) return at;
  if (s.substr(at, end - at).find("pid=") == std::string_view::npos) return at;
  return end + 1;
}

/// After srun's "12: ", pdsh's "worker-5: " before a rank, pytest's "E   ", a quotation's "> " and
/// the frame that rich draws.
std::size_t after_marks(std::string_view s, std::size_t at) {
  if (const std::size_t rank = s.find(": [rank", at);
      rank != std::string_view::npos && rank - at < 64 &&
      s.substr(at, rank - at).find(' ') == std::string_view::npos)
    return rank + 2;
  if (s.substr(at).starts_with("> ")) return at + 2;
  std::size_t digits = at;
  while (digits < s.size() && is_digit(s[digits]) && digits - at < 5) ++digits;
  if (digits > at && s.substr(digits).starts_with(": ")) return digits + 2;
  if (s.substr(at).starts_with("E   ")) return at + 4;
  if (s.substr(at).starts_with("│")) return at + std::string_view("│").size();
  return at;
}

Line line_of(std::string_view raw) {
  const std::string text = plain(raw.substr(0, most_bytes));
  Line line;
  std::size_t at = 0;
  for (bool more = true; more;) {
    const std::size_t before = at, start = skip_spaces(text, at);
    std::size_t next = after_rank(text, start, line.rank);
    if (next == start) next = after_actor(text, start);
    if (next == start) next = after_marks(text, at);
    more = next != start && next != before;
    if (more) at = next;
  }
  line.speaker = text.substr(0, at);
  while (line.speaker.ends_with(' ')) line.speaker.pop_back();  // the text may be indented
  line.text = text.substr(at);
  while (line.text.ends_with(' ')) line.text.pop_back();
  if (line.text.ends_with("│")) line.text.resize(line.text.size() - std::string_view("│").size());
  return line;
}

/// Where the last `most` lines begin; 0: it has no more.
std::size_t begin_of_last(std::string_view text, std::size_t most) {
  std::size_t lines = 0;
  for (std::size_t at = text.size(); at-- > 1;)
    if ((text[at - 1] == '\n' || text[at - 1] == '\r') && ++lines == most) return at;
  return 0;
}

}  // namespace

std::vector<Line> lines_of(std::string_view text, std::size_t most) {
  std::vector<Line> lines;
  for (std::size_t at = begin_of_last(text, most); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\r", at), text.size());
    lines.push_back(line_of(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

}  // namespace ac_advisor::oom
