#include "emulator/record.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "emulator/answer.hpp"
#include "emulator/device.hpp"
#include "emulator/kernel.hpp"
#include "emulator/launch_log.hpp"
#include "emulator/memory.hpp"

namespace emulator::record {
namespace {

struct Total {
  std::atomic<std::uint64_t> times{0}, bytes{0};
};
using Totals = std::array<std::array<Total, activity_count>, segment_count>;

std::atomic<int> current{0};
std::atomic<pid_t> user{0};  ///< the process that used the device
Totals totals;

struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::set<std::string> notes;
};
Lines& lines() {
  static auto* l = new Lines;
  return *l;
}

constexpr const char* segment_names[segment_count] = {"forward", "backward", "optimizer",
                                                      "undecided"};
constexpr const char* activity_names[activity_count] = {
    "kernel", "memory_set", "copy_on_device", "copy_to_host", "copy_from_host", "copy_on_host"};

std::string activities() {
  std::string text;
  for (int s = 0; s < segment_count; ++s)
    for (int a = 0; a < activity_count; ++a) {
      const Total& t = totals[static_cast<std::size_t>(s)][static_cast<std::size_t>(a)];
      if (t.times == 0) continue;
      text += R"({"kind":"activity","segment":")" + std::string(segment_names[s]) +
              R"(","activity":")" + activity_names[a] + R"(","times":)" + std::to_string(t.times) +
              R"(,"bytes":)" + std::to_string(t.bytes) + "}\n";
    }
  return text;
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

std::string devices() {
  std::string text;
  for (int d = 0; d < device_count(); ++d) {
    const memory::Balance b = memory::balance(d);
    text += R"({"kind":"device","index":)" + std::to_string(d) + R"(,"in_use_bytes":)" +
            std::to_string(b.in_use) + R"(,"peak_bytes":)" + std::to_string(b.peak) +
            R"(,"failures":)" + std::to_string(b.failures) + R"(,"failed_bytes":)" +
            std::to_string(b.failed) + R"(,"total_bytes":)" + std::to_string(device().total_bytes) +
            R"(,"context_bytes":)" + std::to_string(device().context_bytes) + "}\n";
  }
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
  user = ::getpid();
}

void add_line(std::string line) {
  Lines& l = lines();
  const std::lock_guard lock(l.mutex);
  l.lines.push_back(std::move(line));
}

void finish() noexcept {
  static std::atomic<bool> done{false};
  const char* folder = std::getenv("AC_ADVISOR_EMULATOR_RECORD");
  if (folder == nullptr || user != ::getpid() || done.exchange(true)) return;
  const std::string path = std::string(folder) + "/" + std::to_string(::getpid()) + ".jsonl";
  std::FILE* file = std::fopen((path + ".part").c_str(), "w");
  if (file == nullptr) return;
  std::string text = R"({"kind":"process","format":1,"pid":)" + std::to_string(::getpid()) +
                     R"(,"rank":)" + std::to_string(rank()) + R"(,"command":)" +
                     quoted(command_line()) + "}\n";
  text += devices() + activities() + kernels();
  {
    Lines& l = lines();
    const std::lock_guard lock(l.mutex);
    for (const std::string& line : l.lines) text += line + "\n";
    for (const std::string& note : l.notes)
      text += R"({"kind":"note","text":)" + quoted(note) + "}\n";
  }
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && whole) std::rename((path + ".part").c_str(), path.c_str());
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
  record::Lines& l = record::lines();
  const std::lock_guard lock(l.mutex);
  l.notes.insert(text);
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
