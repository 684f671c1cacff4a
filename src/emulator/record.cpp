#include "emulator/record.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "emulator/answer.hpp"
#include "emulator/device.hpp"
#include "emulator/kernel.hpp"
#include "emulator/launch_log.hpp"
#include "emulator/memory.hpp"

namespace emulator::record {
namespace {

unsigned long long number(std::uint64_t n) { return n; }

struct Total {
  std::atomic<std::uint64_t> times{0}, bytes{0};
};
using Totals = std::array<std::array<Total, activity_count>, segment_count>;

std::atomic<int> current{0};
std::atomic<pid_t> user{0};  ///< the process that used the device
Totals totals;

/// The file, and what waits for it until the process uses the device.
struct Log {
  std::mutex mutex;
  std::string waiting;
  std::set<std::string> notes;
};
Log& log() {
  static auto* l = new Log;
  return *l;
}
/// Of the process `user`; empty: it has no file. A handler of signals reads it.
char path[4096] = "";

/// Opened for each: a program may close descriptors that it has not opened.
void append(const char* text, std::size_t bytes) noexcept {
  if (path[0] == '\0' || user != ::getpid()) return;
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, text, bytes);
  ::close(file);
}

constexpr const char* segment_names[segment_count] = {"forward", "backward", "optimizer",
                                                      "undecided"};
constexpr const char* activity_names[activity_count] = {
    "kernel", "memory_set", "copy_on_device", "copy_to_host", "copy_from_host", "copy_on_host"};

/// Lines in a buffer of its own: nothing is allocated where a process crashes.
class Lines {
 public:
  __attribute__((format(printf, 2, 3))) void add(const char* form, ...) {
    std::va_list values;
    va_start(values, form);
    const int n = std::vsnprintf(text_ + bytes_, sizeof text_ - bytes_, form, values);
    va_end(values);
    if (n > 0 && bytes_ + static_cast<std::size_t>(n) < sizeof text_)
      bytes_ += static_cast<std::size_t>(n);
  }
  void append() const { record::append(text_, bytes_); }

 private:
  char text_[32 << 10];
  std::size_t bytes_ = 0;
};

void add_balance(Lines& lines, int index, const memory::Balance& b) {
  lines.add(
      R"({"kind":"device","index":%d,"in_use_bytes":%llu,"peak_bytes":%llu,"failures":%llu,"failed_bytes":%llu,"total_bytes":%llu,"context_bytes":%llu})"
      "\n",
      index, number(b.in_use), number(b.peak), number(b.failures), number(b.failed),
      number(device().total_bytes), number(device().context_bytes));
}

}  // namespace

void tell_balance(int index, const memory::Balance& b) noexcept {
  if (path[0] == '\0' || user != ::getpid()) return;
  Lines lines;
  add_balance(lines, index, b);
  lines.append();
}

void tell_counters() noexcept {
  if (path[0] == '\0' || user != ::getpid()) return;
  Lines lines;
  for (int d = 0; d < device_count(); ++d)
    if (const auto b = memory::balance_unless_locked(d)) add_balance(lines, d, *b);
  for (std::size_t s = 0; s < segment_count; ++s)
    for (std::size_t a = 0; a < activity_count; ++a)
      lines.add(R"({"kind":"activity","segment":"%s","activity":"%s","times":%llu,"bytes":%llu})"
                "\n",
                segment_names[s], activity_names[a], number(totals[s][a].times),
                number(totals[s][a].bytes));
  lines.append();
}

namespace {

/// A crash ends the process as it would have, but for what was counted until then: also where the
/// signal was sent, and no instruction would bring it again.
constexpr int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
extern "C" void on_fatal_signal(int signal) {
  tell_counters();
  ::raise(signal);  // reset to its default, and held back until the handler returns
}

void watch_fatal_signals() {
  for (const int signal : fatal_signals) {
    struct sigaction now {
    }, once{};
    once.sa_handler = on_fatal_signal;
    once.sa_flags = static_cast<int>(SA_RESETHAND);
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      ::sigaction(signal, &once, nullptr);
  }
}

std::string kernels() {
  std::string text;
  for_each_kernel([&](const Kernel& k) {
    for (int s = 0; s < segment_count; ++s) {
      const std::uint64_t times = k.launches[static_cast<std::size_t>(s)];
      if (times == 0) continue;
      text += R"({"kind":"kernel","segment":")" + std::string(segment_names[s]) + R"(","name":)" +
              quoted(k.name) + R"(,"times":)" + std::to_string(times) + "}\n";
    }
  });
  return text;
}

std::string command_line() {
  std::string text;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "r")) {
    char buffer[4096];
    const std::size_t n = std::fread(buffer, 1, sizeof buffer, file);
    std::fclose(file);
    text.assign(buffer, n);
    std::replace(text.begin(), text.end(), '\0', ' ');
  }
  return text;
}

/// As torchrun and its like say it.
int rank() {
  const char* text = std::getenv("RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

/// The file's first line. A process that has become another program keeps its number.
void begin() {
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  const char* folder = std::getenv("AC_ADVISOR_EMULATOR_RECORD");
  if (folder == nullptr || path[0] != '\0') return;
  std::string name;
  int file = -1;
  for (int n = 0; file < 0 && n < 1000; ++n) {
    name =
        std::string(folder) + "/" + std::to_string(::getpid()) + "." + std::to_string(n) + ".jsonl";
    file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) return;
  }
  if (file < 0 || name.size() >= sizeof path) return;
  ::close(file);
  user = ::getpid();
  std::memcpy(path, name.c_str(), name.size() + 1);
  const std::string text = R"({"kind":"process","format":1,"pid":)" + std::to_string(::getpid()) +
                           R"(,"rank":)" + std::to_string(rank()) + R"(,"command":)" +
                           quoted(command_line()) + "}\n" + l.waiting;
  append(text.data(), text.size());
  tell_counters();
  watch_fatal_signals();
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

int segment() noexcept { return current.load(std::memory_order_relaxed); }

void count(Activity activity, std::uint64_t bytes) noexcept {
  Total& t = totals[static_cast<std::size_t>(segment())][static_cast<std::size_t>(activity)];
  t.times.fetch_add(1, std::memory_order_relaxed);
  t.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (activity <= Activity::copy_on_device) launch_log::note();
}

void touch() noexcept {
  static thread_local bool touched = false;
  if (touched) return;
  touched = true;
  begin();
}

void add_line(std::string line) {
  line += '\n';
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  if (path[0] == '\0')
    l.waiting += line;
  else
    append(line.data(), line.size());
}

void finish() noexcept {
  static std::atomic<bool> done{false};
  if (path[0] == '\0' || user != ::getpid() || done.exchange(true)) return;
  tell_counters();
  const std::string text = kernels() + "{\"kind\":\"end\"}\n";
  append(text.data(), text.size());
}

namespace {

/// The last of the process: this library is loaded first, so its destructor runs after all others.
struct AtEnd {
  ~AtEnd() { finish(); }
} at_end;

}  // namespace
}  // namespace emulator::record

namespace emulator {

void note_once(const char* text) {
  {
    record::Log& l = record::log();
    const std::lock_guard lock(l.mutex);
    if (!l.notes.insert(text).second) return;
  }
  record::add_line(R"({"kind":"note","text":)" + record::quoted(text) + "}");
}

void unanswered(const char* function, const char* way_out) noexcept {
  std::fprintf(stderr, "ac-advisor: the emulated device does not answer %s%s%s\n", function,
               way_out == nullptr ? "" : ": ", way_out == nullptr ? "" : way_out);
  record::touch();
  record::add_line(R"({"kind":"unanswered","function":)" + record::quoted(function) + "}");
  record::finish();
  ::syscall(SYS_exit_group, 70);
  std::abort();
}

}  // namespace emulator

// What the hooks in the program's Python call, by ctypes.

ANSWER void ac_advisor_emulator_segment(int segment) {
  if (segment >= 0 && segment < emulator::record::segment_count)
    emulator::record::current = segment;
}

/// What was counted in `from` belongs to `to`, known only now.
ANSWER void ac_advisor_emulator_fold(int from, int to) {
  using namespace emulator::record;
  if (from < 0 || from >= segment_count || to < 0 || to >= segment_count || from == to) return;
  const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
  for (std::size_t a = 0; a < activity_count; ++a) {
    totals[t][a].times += totals[f][a].times.exchange(0);
    totals[t][a].bytes += totals[f][a].bytes.exchange(0);
  }
  emulator::for_each_kernel([&](emulator::Kernel& k) {
    if (k.launches[f] != 0) k.launches[t] += k.launches[f].exchange(0);
  });
}

/// The kernels of a step that ended, for the first two steps: what launched since the last call.
ANSWER void ac_advisor_emulator_step(int index) {
  using namespace emulator::record;
  constexpr int steady = 1;
  emulator::for_each_kernel([&](emulator::Kernel& k) {
    for (int s = 0; s < segment_count - 1; ++s) {
      const auto at = static_cast<std::size_t>(s);
      const std::uint64_t all = k.launches[at], times = all - k.before_step[at];
      k.before_step[at] = all;
      if (times > 0 && index <= steady)
        add_line(R"({"kind":"step_kernel","step":)" + std::to_string(index) + R"(,"segment":")" +
                 segment_names[s] + R"(","name":)" + quoted(k.name) + R"(,"times":)" +
                 std::to_string(times) + "}");
    }
  });
  tell_counters();
}

/// The interpreter is about to end: once it has, the process ends too, without the destructors of
/// libraries whose threads may still wait for the interpreter.
ANSWER void ac_advisor_emulator_last() {
  ::on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        emulator::record::finish();
        ::syscall(SYS_exit_group, status);
      },
      nullptr);
}

ANSWER void ac_advisor_emulator_note(const char* text) { emulator::note_once(text); }

/// Times and bytes of each activity in all segments so far: 2 × 6 numbers.
ANSWER void ac_advisor_emulator_counts(std::uint64_t* out) {
  using namespace emulator::record;
  for (std::size_t a = 0; a < activity_count; ++a) {
    out[2 * a] = out[2 * a + 1] = 0;
    for (const auto& s : totals) {
      out[2 * a] += s[a].times;
      out[2 * a + 1] += s[a].bytes;
    }
  }
}

ANSWER void ac_advisor_emulator_line(const char* json) { emulator::record::add_line(json); }

/// What the generated functions call.
extern "C" [[noreturn]] void ac_advisor_emulator_unanswered(const char* name) {
  emulator::unanswered(name);
}

/// Children of multiprocessing end without destructors.
ANSWER void _exit(int status) {
  emulator::record::finish();
  ::syscall(SYS_exit_group, status);
  __builtin_unreachable();
}
