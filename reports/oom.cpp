// What an out-of-memory error's text says, for people.
#include "ac_advisor/reports/oom.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/changes.hpp"
#include "reports/grids.hpp"
#include "reports/room.hpp"

namespace ac_advisor::reports {
namespace {

using oom::size_text;

/// "GPU 0, ranks 0, 1, 5; 3 times"
std::string who(const oom::Error& e) {
  std::string text = e.backend == "CUDA" ? "" : e.backend + ", ";
  if (!e.devices.empty())
    text += fmt::format("GPU{} {}", e.devices.size() > 1 ? "s" : "", fmt::join(e.devices, ", "));
  if (!e.ranks.empty())
    text += fmt::format("{}rank{} {}", text.empty() ? "" : ", ", e.ranks.size() > 1 ? "s" : "",
                        fmt::join(e.ranks, ", "));
  if (e.times > 1) text += fmt::format("{}{} times", text.empty() ? "" : "; ", e.times);
  return text;
}

std::string tensor_text(const oom::Tensor& t) {
  return fmt::format("{}: {}{}", t.what, t.shape, t.made_by.empty() ? "" : "; " + t.made_by);
}

class Lines {
 public:
  explicit Lines(const Style& style) : style_(style) {}
  void add(const char* label, const std::string& text) {
    if (!text.empty())
      text_ += wrap(fmt::format("{:<11} {}", label, printable(text)) + "\n", style_.width);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  const Style& style_;
  std::string text_;
};

std::string asked_by(const oom::Finding& f) {
  std::string text = f.role;
  if (!f.where.empty()) text += " (" + f.where + ")";
  if (!f.phase.empty()) text += (text.empty() ? "in " : ", in ") + f.phase;
  return text;
}

std::string finding_text(const oom::Finding& f, const Style& style) {
  const oom::Error& e = f.error;
  const std::string title = who(e).empty() ? "" : who(e) + ": ";
  std::string text = bold(wrap(printable(title + e.message), style.width), style.color) + "\n";
  Lines lines(style);
  if (e.requested) {
    lines.add("asked for",
              f.tensor ? fmt::format("{}, {}{}", size_text(e.requested->bytes),
                                     f.tensor->certain ? "" : "likely ", tensor_text(*f.tensor))
                       : size_text(e.requested->bytes));
  }
  lines.add("by", asked_by(f));
  if (f.tensor && !f.tensor->op.empty())
    lines.add("in the plan",
              fmt::format("{}, at {} of {}", f.tensor->plan_phase, f.tensor->op, f.tensor->module));
  for (const oom::Tensor& t : f.alternatives) lines.add("or", tensor_text(t));
  if (e.allocated)
    lines.add("allocated",
              fmt::format("{}{}", size_text(e.allocated->bytes),
                          e.capacity ? " of " + size_text(e.capacity->bytes) : std::string()));
  lines.add("why", f.need);
  for (const std::string& note : f.notes) lines.add("note", note);
  return text + lines.text();
}

std::string planned_text(const oom::Planned& planned, const Style& style) {
  const profile::Profile& p = planned.profile;
  std::string text = bold(wrap("Planned: " + title(p), style.width), style.color) + "\n";
  text += wrap(
      fmt::format("peak allocated {} GiB, in {}, at {} of {}\n{}\n", gib(p.memory.peak_allocated),
                  p.memory.peak_phase, p.memory.peak_op, p.memory.peak_module, room_text(p)),
      style.width);
  for (const std::string& note : planned.notes)
    text += wrap("note: " + printable(note) + "\n", style.width);
  for (const std::string& warning : p.warnings)
    text += wrap("warning: " + printable(warning) + "\n", style.width);
  return text + "\n" + changes_text(planned.changes, p.fit.fits, style);
}

}  // namespace

std::string table(const oom::Explanation& e, const Style& style) {
  std::string text;
  for (const oom::Finding& f : e.findings) text += finding_text(f, style) + "\n";
  if (e.flushes > 0)
    text += wrap(fmt::format("DeepSpeed tells of {} cache flush{} in a step: PyTorch's allocator "
                             "released what it had cached and asked the device again, each time "
                             "waiting for it\n\n",
                             e.flushes, e.flushes > 1 ? "es" : ""),
                 style.width);
  if (e.planned) return text + planned_text(*e.planned, style);
  if (!e.suggestions.empty()) {
    text += "What helps against it, by its kind alone:\n";
    for (const std::string& s : e.suggestions) text += wrap("- " + s + "\n", style.width);
    text += wrap(
        "\nWith the model and the options of the step (ac-advisor oom FILE MODEL --batch …) each "
        "change is planned: its peak and what it costs.\n",
        style.width);
  }
  return text;
}

}  // namespace ac_advisor::reports
