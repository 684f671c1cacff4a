#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ac_advisor/oom/error.hpp"
#include "traceback.hpp"

namespace ac_advisor::oom {
namespace {

constexpr std::size_t window = 2000;       ///< bytes that one message may have
constexpr std::size_t most_errors = 4096;  ///< distinct ones of a text

bool is_number(char c) { return (c >= '0' && c <= '9') || c == '.' || c == ','; }

struct Unit {
  std::string_view name;
  double bytes;
};
/// Longest names first. c10::CachingAllocator's format_size writes powers of two.
constexpr Unit units[] = {{"bytes", 1},       {"TiB", 1099511627776.0}, {"GiB", 1073741824.0},
                          {"MiB", 1048576.0}, {"KiB", 1024.0},          {"GB", 1073741824.0},
                          {"MB", 1048576.0},  {"KB", 1024.0},           {"B", 1}};

/// The size that stands at `at`: "13.91 GiB".
std::optional<Amount> amount_at(std::string_view s, std::size_t at) {
  while (at < s.size() && s[at] == ' ') ++at;
  std::size_t end = at;
  while (end < s.size() && is_number(s[end])) ++end;
  std::string digits;
  std::size_t decimals = 0;
  bool point = false;
  for (const char c : s.substr(at, end - at)) {
    if (c == ',') continue;
    if (c == '.' && point) break;
    point = point || c == '.';
    decimals += point && c != '.' ? 1 : 0;
    digits += c;
  }
  if (digits.empty() || digits == "." || digits.size() > 24) return std::nullopt;
  double value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    return std::nullopt;
  while (end < s.size() && s[end] == ' ') ++end;
  for (const Unit& unit : units) {
    if (!s.substr(end).starts_with(unit.name)) continue;
    const double bytes = value * unit.bytes,
                 slack = unit.bytes > 1
                             ? 0.5 * std::pow(10.0, -static_cast<double>(decimals)) * unit.bytes
                             : 0.0;
    if (!(bytes < 1e18)) return std::nullopt;
    return Amount{std::llround(bytes), std::llround(slack)};
  }
  return std::nullopt;
}

std::optional<Amount> after(std::string_view s, std::string_view phrase) {
  const std::size_t at = s.find(phrase);
  if (at == std::string_view::npos) return std::nullopt;
  return amount_at(s, at + phrase.size());
}

/// The size that ends where `phrase` begins: "6.77 GiB| is reserved by PyTorch".
std::optional<Amount> before(std::string_view s, std::string_view phrase) {
  const std::size_t at = s.find(phrase);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && s[begin - 1] == ' ') --begin;
  while (begin > 0 && std::isalpha(static_cast<unsigned char>(s[begin - 1])) != 0) --begin;
  while (begin > 0 && s[begin - 1] == ' ') --begin;
  while (begin > 0 && is_number(s[begin - 1])) --begin;
  return amount_at(s.substr(0, at), begin);
}

std::optional<std::int64_t> number_after(std::string_view s, std::string_view phrase) {
  const std::size_t at = s.find(phrase);
  if (at == std::string_view::npos) return std::nullopt;
  std::int64_t n = 0;
  const char* const first = s.data() + at + phrase.size();
  if (std::from_chars(first, s.data() + s.size(), n).ec != std::errc()) return std::nullopt;
  return n;
}

std::optional<Amount> first_of(std::optional<Amount> a, std::optional<Amount> b) {
  return a ? a : b;
}

/// "Process 123 has 3.40 GiB memory in use", of which one may be this process: inside a container
/// it does not know its own number.
void read_processes(std::string_view s, Error& e) {
  constexpr std::string_view word = "Process ";
  for (std::size_t at = s.find(word); at != std::string_view::npos; at = s.find(word, at + 1)) {
    const std::string_view rest = s.substr(at, 120);
    const auto id = number_after(rest, word);
    const auto in_use = after(rest, " has ");
    if (id && in_use && rest.find("memory in use") != std::string_view::npos)
      e.others.push_back({*id, *in_use});
    if (e.others.size() == 64) break;
  }
  e.this_process = after(s, "this process has ");
  if (e.this_process || !e.allocated || e.others.empty()) return;
  constexpr std::int64_t beside = std::int64_t{4} << 30;  // a context, NCCL's buffers
  const std::int64_t own = e.allocated->bytes + (e.unallocated ? e.unallocated->bytes : 0);
  auto nearest = e.others.end();
  for (auto p = e.others.begin(); p != e.others.end(); ++p)
    if (p->in_use.most() >= own - e.allocated->slack && p->in_use.bytes - own < beside &&
        (nearest == e.others.end() || p->in_use.bytes < nearest->in_use.bytes))
      nearest = p;
  if (nearest == e.others.end()) return;
  e.this_process = nearest->in_use;
  e.others.erase(nearest);
}

/// "CUDA out of memory. Tried to allocate 13.91 GiB. GPU 0 has a total capacity of …" (2.1 on), or
/// "… (GPU 0; 79.11 GiB total capacity; 60.49 GiB already allocated; …)" (before).
Error read_message(std::string_view s, std::string_view backend) {
  Error e;
  e.backend = backend.empty() ? "CUDA" : backend;
  e.requested = after(s, "Tried to allocate ");
  e.capacity = first_of(first_of(after(s, "total capacity of "), after(s, "total capacty of ")),
                        before(s, " total capacity"));
  e.old_wording = s.find(" total capacity;") != std::string_view::npos;
  e.free = first_of(after(s, "of which "), before(s, " free;"));
  e.allocated = first_of(after(s, "Of the allocated memory "), before(s, " already allocated"));
  e.allowed = before(s, " allowed;");
  e.private_pools = before(s, " allocated in private pools");
  e.unallocated = before(s, " is reserved by PyTorch but unallocated");
  if (!e.unallocated && e.allocated)
    if (const auto reserved = before(s, " reserved in total by PyTorch"))
      e.unallocated = Amount{std::max<std::int64_t>(0, reserved->bytes - e.allocated->bytes),
                             reserved->slack + e.allocated->slack};
  for (const std::string_view device : {"GPU ", "NPU ", "XPU "})
    if (const auto n = number_after(s, device); n && e.devices.empty()) e.devices.push_back(*n);
  read_processes(s, e);
  return e;
}

/// By what stands before both, or by the rank where both tell it.
bool same_process(const Line& a, const Line& b) {
  return a.speaker == b.speaker || (a.rank >= 0 && a.rank == b.rank);
}

/// The next lines of the same process, as one, until another message or traceback begins.
std::string joined(const std::vector<Line>& lines, std::size_t at, std::size_t from) {
  std::string text = lines[at].text.substr(from);
  for (std::size_t i = at + 1; i < lines.size() && i < at + 40 && text.size() < window; ++i) {
    if (!same_process(lines[i], lines[at])) continue;
    const std::string& next = lines[i].text;
    if (next.find("Traceback (most") != std::string::npos ||
        next.find("Tried to allocate") != std::string::npos)
      break;
    text += ' ' + next;
  }
  if (const std::size_t again = text.find("Tried to allocate", text.find("Tried to allocate") + 1);
      again != std::string::npos)
    text.resize(again);
  return text.substr(0, window);
}

std::string first_sentences(const std::string& text) {
  std::string line = text.substr(0, 160);
  if (const std::size_t end = line.find(". GPU"); end != std::string::npos) line.resize(end + 1);
  return line;
}

bool alike(const Error& a, const Error& b) {
  const auto same = [](const std::optional<Amount>& x, const std::optional<Amount>& y) {
    return x.has_value() == y.has_value() && (!x || x->bytes == y->bytes);
  };
  const auto innermost = [](const Error& e) {
    return e.frames.empty() ? std::string() : e.frames.back().function + e.frames.back().source;
  };
  return a.kind == b.kind && same(a.requested, b.requested) && same(a.needed_kv, b.needed_kv) &&
         (a.kind == Kind::allocator ? true : a.message == b.message) &&
         (innermost(a) == innermost(b) || a.frames.empty() || b.frames.empty());
}

/// What the same process says after line `at`, until its next error.
std::vector<Line> said_after(const std::vector<Line>& lines, std::size_t at) {
  constexpr std::size_t most = 1000;
  std::vector<Line> said;
  for (std::size_t i = at + 1; i < std::min(lines.size(), at + most); ++i) {
    if (lines[i].text.find("Tried to allocate") != std::string::npos) break;
    if (same_process(lines[i], lines[at])) said.push_back(lines[i]);
  }
  return said;
}

void merge(std::vector<std::int64_t>& into, const std::vector<std::int64_t>& from) {
  for (const std::int64_t n : from)
    if (std::find(into.begin(), into.end(), n) == into.end() && into.size() < 4096)
      into.push_back(n);
  std::sort(into.begin(), into.end());
}

void add(std::vector<Error>& errors, Error e) {
  for (Error& known : errors) {
    if (!alike(known, e)) continue;
    ++known.times;
    merge(known.devices, e.devices);
    merge(known.ranks, e.ranks);
    if (known.frames.empty()) known.frames = std::move(e.frames);
    return;
  }
  if (errors.size() < most_errors) errors.push_back(std::move(e));
}

/// Before "out of memory": the backend that says so.
std::string_view backend_before(std::string_view s, std::size_t at) {
  for (const std::string_view name : {"CUDA", "HIP", "XPU", "NPU", "MPS backend"})
    if (at >= name.size() + 1 && s.substr(at - name.size() - 1, name.size()) == name) return name;
  return {};
}

/// What is refused outside of PyTorch's allocator, or to an engine; each with what it says.
struct Phrase {
  std::string_view text;
  Kind kind;
};
constexpr Phrase phrases[] = {
    {"CUDA error: out of memory", Kind::device},
    {"HIP error: out of memory", Kind::device},
    {"CUBLAS_STATUS_ALLOC_FAILED", Kind::device},
    {"CUDNN_STATUS_ALLOC_FAILED", Kind::device},
    {"Cuda failure 2 'out of memory'", Kind::device},
    {"Failed to CUDA calloc", Kind::device},
    {"No available memory for the cache blocks", Kind::engine},
    {"larger than the available KV cache memory", Kind::engine},
    {"than the maximum number of tokens that can be stored in KV cache", Kind::engine},
    {"less than desired GPU memory utilization", Kind::engine},
    {"memory allocation failed with OOM on device", Kind::recoverable},
};

std::optional<Error> other_error(const std::vector<Line>& lines, std::size_t at) {
  for (const Phrase& phrase : phrases) {
    if (lines[at].text.find(phrase.text) == std::string::npos) continue;
    const std::string text = joined(lines, at, 0);
    Error e;
    e.kind = phrase.kind;
    e.message = lines[at].text.substr(0, 300);
    if (phrase.kind == Kind::engine) {
      e.needed_kv = before(text, " KV cache is needed");
      e.available_kv = after(text, "available KV cache memory (");
    }
    if (phrase.kind == Kind::recoverable) e.requested = after(text, "trying to allocate ");
    return e;
  }
  return std::nullopt;
}

/// "torch.OutOfMemoryError: CUDA out of memory. Tried to alloc", where a log or a title ends.
bool says_error(const std::string& text) {
  return text.find("OutOfMemoryError: ") != std::string::npos ||
         text.find("RuntimeError: ") != std::string::npos;
}

}  // namespace

std::vector<Error> read_errors(std::string_view text) {
  std::vector<Error> errors;
  std::optional<Error> cut;
  Tracebacks tracebacks;
  const std::vector<Line> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const std::size_t at = line.text.find("out of memory");
    const std::size_t tried = line.text.find("Tried to allocate");
    const std::string_view backend =
        at == std::string::npos ? std::string_view() : backend_before(line.text, at);
    std::optional<Error> found;
    if (tried != std::string::npos || (at != std::string::npos && i + 1 < lines.size() &&
                                       lines[i + 1].text.starts_with("Tried to allocate"))) {
      const std::string message = joined(lines, i, at == std::string::npos ? tried : at);
      found = read_message(message, backend);
      if (!found->requested) found.reset();
      if (found)
        found->message = first_sentences(
            message.starts_with("out of") ? found->backend + ' ' + message : message);
      if (found && tried == std::string::npos) ++i;
    } else {
      found = other_error(lines, i);
    }
    const bool is_cut = !found && !cut && !backend.empty() && says_error(line.text);
    if (!found && !is_cut) {
      tracebacks.read(line);
      continue;
    }
    if (is_cut) {
      cut.emplace();
      cut->backend = backend;
      cut->message = first_sentences(line.text);
    }
    Error& error = is_cut ? *cut : *found;
    if (line.rank >= 0) error.ranks.push_back(line.rank);
    error.frames = tracebacks.take(line);
    if (error.frames.empty()) error.frames = frames_upwards(said_after(lines, i));
    if (found) add(errors, std::move(*found));
  }
  if (errors.empty() && cut) errors.push_back(std::move(*cut));
  return errors;
}

std::string size_text(std::int64_t bytes) {
  constexpr double gib = 1 << 30, mib = 1 << 20;
  const auto size = static_cast<double>(bytes);
  return std::abs(size) >= gib ? fmt::format("{:.2f} GiB", size / gib)
                               : fmt::format("{:.1f} MiB", size / mib);
}

std::int64_t cache_flushes(std::string_view text) {
  constexpr std::string_view words = " pytorch allocator cache flushes since last step";
  std::int64_t most = 0;
  for (std::size_t at = text.find(words); at != std::string_view::npos;
       at = text.find(words, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && at - begin < 9 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
    std::int64_t n = 0;
    std::from_chars(text.data() + begin, text.data() + at, n);
    most = std::max(most, n);
  }
  return most;
}

}  // namespace ac_advisor::oom
