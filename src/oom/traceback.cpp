#include "traceback.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ac_advisor::oom {
namespace {

constexpr std::size_t most_frames = 400, most_processes = 4096;

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::optional<std::int64_t> whole(std::string_view s) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return std::nullopt;
  return n;
}

/// `File "modeling_llama.py", line 837, in forward`; pasted in one line the source follows.
std::optional<Frame> python_frame(std::string_view s) {
  constexpr std::string_view opening = "File \"", line_word = "\", line ", in_word = ", in ";
  if (!s.starts_with(opening)) return std::nullopt;
  const std::size_t quote = s.find(line_word), in = s.find(in_word, quote);
  if (quote == std::string_view::npos || in == std::string_view::npos) return std::nullopt;
  const auto line = whole(s.substr(quote + line_word.size(), in - quote - line_word.size()));
  if (!line) return std::nullopt;
  const std::string_view rest = trimmed(s.substr(in + in_word.size()));
  const std::size_t end = std::min(rest.find(' '), rest.size());
  return Frame{std::string(s.substr(opening.size(), quote - opening.size())),
               std::string(rest.substr(0, end)), std::string(trimmed(rest.substr(end))), *line};
}

/// "/a/b.py:12" of it; line 0: no number stands there.
struct Place {
  std::string_view file;
  std::int64_t line = 0;
};
std::optional<Place> place_of(std::string_view s) {
  if (s.ends_with(':')) s.remove_suffix(1);
  if (s.ends_with(".py")) return Place{s, 0};
  const std::size_t colon = s.rfind(':');
  if (colon == std::string_view::npos || !s.substr(0, colon).ends_with(".py")) return std::nullopt;
  const auto line = whole(s.substr(colon + 1));
  if (!line) return std::nullopt;
  return Place{s.substr(0, colon), *line};
}

/// pytest's `trainer.py:1412: in train`, rich's `/a/adamw.py:566 in _multi_tensor_adamw`, IPython's
/// `File /a/functional.py:3053, in cross_entropy(input, target)` and, before its version 8,
/// `/a/functional.py in cross_entropy(input, target)`.
std::optional<Frame> short_frame(std::string_view s, bool& pytest) {
  if (s.starts_with("File ")) s.remove_prefix(5);
  const std::size_t in = s.find(" in ");
  if (in == std::string_view::npos || s.size() > 400) return std::nullopt;
  std::string_view before = trimmed(s.substr(0, in));
  pytest = before.ends_with(':');
  if (before.ends_with(',')) before.remove_suffix(1);
  const auto place = place_of(before);
  std::string_view function = trimmed(s.substr(in + 4));
  if (!place || (place->line == 0 && function.find('(') == std::string_view::npos))
    return std::nullopt;
  function = function.substr(0, function.find('('));
  if (function.find(' ') != std::string_view::npos) return std::nullopt;
  return Frame{std::string(place->file), std::string(function), "", place->line};
}

/// The line that rich and IPython point at, without their mark and its number.
std::optional<std::string_view> pointed_at(std::string_view s) {
  constexpr std::string_view mark = "❱", bar = "│";
  if (s.starts_with(mark)) {
    s = trimmed(s.substr(mark.size()));
  } else {
    const std::size_t end = s.find_first_not_of('-');
    if (end == 0 || end == std::string_view::npos || s[end] != '>') return std::nullopt;
    s = trimmed(s.substr(end + 1));
  }
  if (s.empty() || !is_digit(s.front())) return std::nullopt;
  while (!s.empty() && is_digit(s.front())) s.remove_prefix(1);
  for (s = trimmed(s); s.starts_with(bar); s = trimmed(s)) s.remove_prefix(bar.size());
  return s;
}

/// `^^^^`, `~~~~`
bool only_marks(std::string_view s) {
  return !s.empty() && s.find_first_not_of("^~ ") == std::string_view::npos;
}

/// A statement as a traceback indents it, of people who leave its frame out.
bool is_code(std::string_view line) {
  return line.starts_with("    ") && line.find('(') != std::string_view::npos &&
         line.ends_with(')');
}

}  // namespace

void Tracebacks::add(Open& open, Frame frame, Source wants) {
  if (open.frames.size() == most_frames) open.frames.erase(open.frames.begin());
  open.wants = frame.source.empty() ? wants : Source::none;
  open.frames.push_back(std::move(frame));
}

void Tracebacks::read(const Line& line) {
  if (open_.size() >= most_processes && !open_.contains(line.speaker)) return;
  Open& open = open_[line.speaker];
  const std::string_view text = trimmed(line.text);
  if (text.find("Traceback (most recent call last)") != std::string_view::npos) {
    open = {};
    return;
  }
  if (!text.empty()) open.last = is_code(line.text) ? text : "";
  const std::string half = std::move(open.half);
  open.half.clear();
  if (text.empty()) return;
  if (std::optional<Frame> frame = python_frame(text)) {
    add(open, std::move(*frame), Source::next);
    return;
  }
  bool pytest = false;
  if (auto frame = short_frame(text.starts_with('/') ? std::string(text) : half + std::string(text),
                               pytest)) {
    add(open, std::move(*frame), pytest ? Source::next : Source::pointed);
    return;
  }
  if (const auto source = pointed_at(text)) {
    if (open.wants == Source::pointed) open.frames.back().source = *source;
    open.wants = Source::none;
  } else if (only_marks(text)) {
    return;
  } else if (open.wants == Source::next) {
    open.frames.back().source = text;
    open.wants = Source::none;
  } else if (line.quoted) {
    open.quoted = text;
  } else if (const auto place = place_of(text); place && place->line > 0 && !open.quoted.empty()) {
    add(open, Frame{std::string(place->file), "", std::move(open.quoted), place->line},
        Source::none);
    open.quoted.clear();
  } else if (line.boxed && text.starts_with('/') && text.find(' ') == std::string_view::npos) {
    open.half = text;
  }
}

std::vector<Frame> Tracebacks::take(const Line& line) {
  const auto found = open_.find(line.speaker);
  if (found == open_.end()) return {};
  Open open = std::move(found->second);
  open_.erase(found);
  // pytest writes the error between a source line and its place.
  if (!open.quoted.empty()) add(open, Frame{"", "", std::move(open.quoted), 0}, Source::none);
  if (open.frames.empty() && !open.last.empty())
    add(open, Frame{"", "", std::move(open.last), 0}, Source::none);
  return std::move(open.frames);
}

std::vector<Frame> frames_upwards(std::span<const Line> after) {
  std::vector<Frame> frames;
  std::string_view source;
  for (const Line& line : after) {
    const std::string_view text = trimmed(line.text);
    if (text.empty() || text.find("Traceback (most recent call last)") != std::string_view::npos)
      break;
    if (only_marks(text)) continue;
    if (std::optional<Frame> frame = python_frame(text)) {
      if (source.empty() || frames.size() == most_frames) break;
      frame->source = source;
      source = {};
      frames.push_back(std::move(*frame));
    } else {
      source = text;
    }
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

}  // namespace ac_advisor::oom
