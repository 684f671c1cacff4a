#include "lines.hpp"

#include <algorithm>
#include <set>

#include "prefixes.hpp"

namespace ac_advisor::oom {
namespace {

constexpr std::size_t npos = std::string_view::npos;
constexpr std::size_t most_bytes = 4096, most_packed = std::size_t{1} << 20;
constexpr std::string_view frame_word = "File \"";

/// After a colour whose escape character was lost on the way: "[36m", "[0m"; `at` where it is none.
std::size_t after_colour(std::string_view s, std::size_t at) {
  std::size_t end = at + 1;
  while (end < s.size() && end - at < 12 && (is_digit(s[end]) || s[end] == ';')) ++end;
  return end > at + 1 && end < s.size() && s[end] == 'm' ? end + 1 : at;
}

/// Colours and what redraws a line go; so do control characters.
std::string plain(std::string_view raw) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const auto c = static_cast<unsigned char>(raw[i]);
    if (c == 0x1B && i + 1 < raw.size() && raw[i + 1] == '[') {
      i += 2;
      while (i < raw.size() && (static_cast<unsigned char>(raw[i]) < 0x40)) ++i;
    } else if (c == 0x1B && i + 1 < raw.size() && raw[i + 1] == ']') {  // a title, a link
      while (i < raw.size() && raw[i] != '\a' && raw[i] != '\\') ++i;
    } else if (const std::size_t end = c == '[' ? after_colour(raw, i) : i; end > i) {
      i = end - 1;
    } else if (raw.substr(i).starts_with("\xC2\xA0")) {  // a space that does not break
      out += ' ';
      ++i;
    } else if (c == '\t') {
      out += "    ";
    } else if (c >= 0x20 && c != 0x7F) {
      out += raw[i];
    }
  }
  return out;
}

Line line_of(std::string_view raw) {
  const std::string text = plain(raw.substr(0, most_bytes));
  Line line;
  line.text = text.substr(begin_of_text(text, line));
  while (line.text.ends_with(' ')) line.text.pop_back();
  if (line.text.ends_with("│")) line.text.resize(line.text.size() - std::string_view("│").size());
  return line;
}

/// A log in JSON has a whole traceback in one text: its `\n` end lines, its `\"` are quotes.
std::string unescaped(std::string_view raw) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const char next = raw[i] == '\\' && i + 1 < raw.size() ? raw[i + 1] : '\0';
    if (next == 'n' || next == '"' || next == '\\') {
      out += next == 'n' ? '\n' : next;
      ++i;
    } else {
      out += raw[i];
    }
  }
  return out;
}

/// Where a line that was pasted in one with the one before it begins: a frame, or the error's name.
std::size_t next_begin(std::string_view s, std::size_t from) {
  std::size_t first = s.find(frame_word, from);
  for (const std::string_view word : {"torch.OutOfMemoryError: ", "torch.cuda.OutOfMemoryError: ",
                                      "CUDA out of memory. ", "HIP out of memory. "})
    first = std::min(first, s.find(word, from));
  return first;
}

/// The lines that one line has, each with the prefix of the first.
void add_lines(std::string_view raw, std::vector<Line>& lines) {
  raw = raw.substr(0, most_packed);
  if (raw.find("\\n") != npos &&
      (raw.find("File \\\"") != npos || raw.find("Tried to allocate") != npos)) {
    const std::string several = unescaped(raw);
    for (std::size_t at = 0; at < several.size();) {
      const std::size_t end = std::min(several.find('\n', at), several.size());
      lines.push_back(line_of(std::string_view(several).substr(at, end - at)));
      at = end + 1;
    }
    return;
  }
  // "Traceback (most recent call last): File "a.py", line 1, in f  x = g() File "b.py", …"
  const std::size_t frame = raw.find(frame_word);
  const bool packed = (frame != npos && raw.find(frame_word, frame + 1) != npos) ||
                      raw.find("Tried to allocate") != raw.rfind("Tried to allocate");
  if (!packed) {
    lines.push_back(line_of(raw));
    return;
  }
  Line whole;
  const std::string text = plain(raw);
  for (std::size_t at = begin_of_text(text, whole); at < text.size();) {
    std::size_t end = next_begin(text, at + 1);
    // "torch.OutOfMemoryError: CUDA out of memory. " is one.
    if (end != npos && std::string_view(text).substr(at, end - at).ends_with("OutOfMemoryError: "))
      end = next_begin(text, end + 1);
    end = std::min(end, text.size());
    Line line = whole;
    line.text = text.substr(at, std::min(end - at, most_bytes));
    lines.push_back(std::move(line));
    at = end;
  }
}

/// What stands before frames in lines that no prefix explains is one: of whoever writes so.
void read_unknown_prefixes(std::vector<Line>& lines) {
  constexpr std::size_t most_prefixes = 64, longest = 200;
  std::set<std::string, std::less<>> prefixes;
  for (const Line& line : lines) {
    const std::size_t frame = line.text.find(frame_word);
    if (frame == npos || frame > longest || line.text.find("\", line ", frame) == npos) continue;
    const std::string_view before = std::string_view(line.text).substr(0, frame);
    const std::size_t end = before.find_last_not_of(' ');
    if (end != npos && prefixes.size() < most_prefixes) prefixes.emplace(before.substr(0, end + 1));
  }
  if (prefixes.empty()) return;
  for (Line& line : lines)
    for (const std::string& prefix : prefixes)
      if (line.text.starts_with(prefix)) {
        line.speaker += prefix;
        line.text.erase(0, prefix.size());
        break;
      }
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
    add_lines(text.substr(at, end - at), lines);
    at = end + 1;
  }
  read_unknown_prefixes(lines);
  return lines;
}

}  // namespace ac_advisor::oom
