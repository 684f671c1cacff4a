#include "trace/kineto_event.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

using Token = JsonScanner::Token;

constexpr std::size_t max_name = 512;

struct NumberField {
  std::string_view key;
  std::optional<std::int64_t> KinetoEvent::*member;
  std::size_t decimals;
};
constexpr NumberField event_numbers[] = {{"ts", &KinetoEvent::start, 3},
                                         {"dur", &KinetoEvent::duration, 3}};
constexpr NumberField argument_numbers[] = {
    {"correlation", &KinetoEvent::correlation, 0},
    {"device", &KinetoEvent::device, 0},
    {"bytes", &KinetoEvent::bytes, 0},
    {"Bytes", &KinetoEvent::bytes, 0},
    {"graph id", &KinetoEvent::graph, 0},
    {"Sequence number", &KinetoEvent::sequence, 0},
    {"Fwd thread id", &KinetoEvent::forward_thread, 0},
    {"Total Allocated", &KinetoEvent::allocated, 0},
    {"Total Reserved", &KinetoEvent::reserved, 0},
    {"Device Type", &KinetoEvent::device_type, 0},
};

struct TextField {
  std::string_view key;
  std::string KinetoEvent::*member;
  std::size_t most;
};
constexpr TextField event_texts[] = {{"ph", &KinetoEvent::phase, 8},
                                     {"cat", &KinetoEvent::category, 64},
                                     {"name", &KinetoEvent::name, max_name}};

/// Most keys are none of them: their lengths and first letters tell.
template <typename Field, std::size_t N>
const Field* find(const Field (&fields)[N], std::string_view key) {
  if (key.empty()) return nullptr;
  for (const Field& field : fields)
    if (field.key.size() == key.size() && field.key.front() == key.front() && field.key == key)
      return &field;
  return nullptr;
}

/// The number of a process or thread: itself where it is one, also as a text ("31383", as torch 1.8
/// writes it); else one that stands for the text.
std::int64_t number_of(std::string_view text) {
  if (const bool digits =
          !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == text.npos;
      digits) {
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  const auto hash = static_cast<std::int64_t>(std::hash<std::string_view>{}(text) >> 3U);
  return -hash - (std::int64_t{1} << 32);
}

void read_id(JsonScanner& json, std::optional<std::int64_t>& id, std::string* text) {
  const Token token = json.next();
  if (token == Token::text) {
    id = number_of(json.text());
    if (text != nullptr && *id < 0) *text = json.text().substr(0, 64);
  } else if (token == Token::number) {
    id = scaled(json.text(), 0);
  } else if (token == Token::object || token == Token::array) {
    json.leave();
  }
}

void read_number(JsonScanner& json, std::optional<std::int64_t>& member, std::size_t decimals) {
  const Token token = json.next();
  if (token == Token::number || token == Token::text)
    member = scaled(json.text(), decimals);
  else if (token == Token::object || token == Token::array)
    json.leave();
}

void read_arguments(JsonScanner& json, KinetoEvent& event) {
  const Token token = json.next();
  if (token == Token::array) return json.leave();
  if (token != Token::object) return;
  while (json.next() == Token::key) {
    const std::string_view key = json.text();
    if (const NumberField* field = find(argument_numbers, key)) {
      read_number(json, event.*field->member, field->decimals);
    } else if (key == "name") {
      if (const Token value = json.next(); value == Token::text)
        event.thread_name = json.text().substr(0, 64);
      else if (value == Token::object || value == Token::array)
        json.leave();
    } else {
      json.skip_value();
    }
  }
}

}  // namespace

std::optional<std::int64_t> scaled(std::string_view text, std::size_t decimals) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  if (std::any_of(text.begin(), text.end(), [](char c) { return c == 'e' || c == 'E'; })) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    value *= std::pow(10.0, static_cast<double>(decimals));
    if (error != std::errc() || end != text.data() + text.size() ||
        !(value <= static_cast<double>(clock_limit)))
      return std::nullopt;
    return static_cast<std::int64_t>(negative ? -value : value);
  }
  constexpr std::int64_t most = clock_limit / 10 - 1;  // before the next digit
  std::int64_t value = 0;
  std::size_t places = 0;
  bool fraction = false;
  for (const char c : text) {
    if (c == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    if (fraction && places == decimals) continue;
    places += fraction ? 1 : 0;
    if (value > most) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  for (; places < decimals; ++places) {
    if (value > most) return std::nullopt;
    value *= 10;
  }
  return negative ? -value : value;
}

void KinetoEvent::clear() {
  for (std::string* text : {&phase, &category, &name, &thread_name, &pid_text}) text->clear();
  for (std::optional<std::int64_t>* number :
       {&pid, &tid, &start, &duration, &correlation, &device, &bytes, &graph, &sequence,
        &forward_thread, &allocated, &reserved, &device_type})
    number->reset();
}

void read_event(JsonScanner& json, KinetoEvent& event) {
  event.clear();
  while (json.next() == Token::key) {
    const std::string_view key = json.text();
    if (const TextField* field = find(event_texts, key)) {
      if (const Token token = json.next(); token == Token::text)
        (event.*field->member).assign(json.text().substr(0, field->most));
      else if (token == Token::object || token == Token::array)
        json.leave();
    } else if (const NumberField* number = find(event_numbers, key)) {
      read_number(json, event.*number->member, number->decimals);
    } else if (key == "pid") {
      read_id(json, event.pid, &event.pid_text);
    } else if (key == "tid") {
      read_id(json, event.tid, nullptr);
    } else if (key == "args") {
      read_arguments(json, event);
    } else {
      json.skip_value();
    }
  }
}

}  // namespace ac_advisor::trace
