#include "reports/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ac_advisor/model/options.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

double ratio(double b, double a) { return a > 0 ? b / a - 1.0 : 0.0; }

/// "12.3 % less memory", "the same memory"
std::string change(double share, const char* more, const char* less, const char* what) {
  if (std::abs(share) < 0.0005) return fmt::format("the same {}", what);
  return fmt::format("{:.1f} % {} {}", 100.0 * std::abs(share), share > 0 ? more : less, what);
}

std::string room(const profile::Fit& f) {
  if (f.fits && f.pressure && f.pressure->retries > 0)
    return fmt::format(
        "it fits by releasing cached blocks {} times per step: {} GiB would be reserved, and {} "
        "are "
        "left",
        f.pressure->retries, gib(f.pressure->unlimited_reserved), gib(f.limit()));
  if (f.fits)
    return fmt::format("it fits: {} of {} GiB are needed, with context and margin", gib(f.required),
                       gib(f.usable));
  if (f.pressure && f.pressure->excess == 0)
    return fmt::format(
        "it does not fit, by fragmentation: {} GiB would be reserved, and {} are left",
        gib(f.pressure->unlimited_reserved), gib(f.limit()));
  return fmt::format(
      "it does not fit: {} GiB are needed, with context and margin, and there are {}",
      gib(f.required), gib(f.usable));
}

std::string time_word(const profile::Profile& p) {
  const profile::TimeBasis basis = p.time.basis;
  return (basis == profile::TimeBasis::estimate ? "an " : "a ") + std::string(time_word(basis));
}

}  // namespace

const advise::Row* plain_row(const advise::Sweep& sweep, const advise::Row& row) {
  for (const advise::Row& other : sweep.rows) {
    const StepConfig &c = other.profile.config, &like = row.profile.config;
    if (c.memory.ac == AcMode::none && c.memory.loss == LossKind::ce &&
        c.memory.kernels == Kernels::eager && c.run.batch == like.run.batch &&
        c.run.grad_accum == like.run.grad_accum && c.layout.tp == like.layout.tp &&
        c.layout.shard == like.layout.shard && c.layout.hsdp_shards == like.layout.hsdp_shards)
      return &other;
  }
  return nullptr;
}

std::string verdict(const advise::Sweep& sweep) {
  if (sweep.recommended >= sweep.rows.size()) {
    std::string text = sweep.recommendation;
    if (!text.empty()) text.front() = static_cast<char>(std::toupper(text.front()));
    return text + ".";
  }
  const advise::Row& best = sweep.rows[sweep.recommended];
  const profile::Profile& p = best.profile;
  std::string text = fmt::format(
      "Use {}: its peak is {} GiB, at {} {} ms per step ({} tokens/s), the fastest of "
      "those that fit; {}.",
      best.label, gib(p.memory.peak_allocated), time_word(p), milliseconds(p.time.step),
      grouped(static_cast<std::int64_t>(p.time.tokens_per_second)), room(p.fit));
  const advise::Row* plain = plain_row(sweep, best);
  if (plain == &best) return text;
  if (plain == nullptr) {
    if (sweep.savings.empty()) return text;
    const advise::Saving& baseline = sweep.savings.front();
    return text + fmt::format(" The savings table's baseline holds {} GiB and takes {} ms.",
                              gib(baseline.peak_bytes), milliseconds(baseline.step_seconds));
  }
  const profile::Profile& q = plain->profile;
  return text + fmt::format(
                    " Against the same batch and sharding with nothing saved ({}), it holds {} and "
                    "takes {}.",
                    plain->label,
                    change(ratio(static_cast<double>(p.memory.peak_allocated),
                                 static_cast<double>(q.memory.peak_allocated)),
                           "more", "less", "memory"),
                    change(ratio(p.time.step, q.time.step), "more", "less", "time"));
}

std::string verdict(const profile::Profile& p) {
  std::string where = p.memory.peak_phase;
  if (!p.memory.peak_op.empty())
    where += fmt::format(", at {} of {}", p.memory.peak_op, p.memory.peak_module);
  return fmt::format("{} holds {} GiB at its peak, in {}; {}. A step takes {} {} ms ({} tokens/s).",
                     p.model.name, gib(p.memory.peak_allocated), where, room(p.fit), time_word(p),
                     milliseconds(p.time.step),
                     grouped(static_cast<std::int64_t>(p.time.tokens_per_second)));
}

std::string verdict(const Explanation& e) { return verdict(e.profile); }

std::string verdict(const profile::Profile& a, const profile::Profile& b) {
  const bool a_measured = a.source == "measured", b_measured = b.source == "measured";
  const auto peak = [](const profile::Profile& p) {
    return static_cast<double>(p.memory.peak_allocated);
  };
  if (a_measured != b_measured) {
    const profile::Profile &predicted = a_measured ? b : a, &measured = a_measured ? a : b;
    return fmt::format(
        "Measured: {} GiB at the peak and {} ms per step. Predicted: {} GiB ({:+.2f} %) and {} ms "
        "({:+.1f} %).",
        gib(measured.memory.peak_allocated), milliseconds(measured.time.step),
        gib(predicted.memory.peak_allocated), 100.0 * ratio(peak(predicted), peak(measured)),
        milliseconds(predicted.time.step), 100.0 * ratio(predicted.time.step, measured.time.step));
  }
  return fmt::format(
      "B holds {} at its peak than A ({} against {} GiB), and its step takes {} ({} "
      "against {} ms). {}",
      change(ratio(peak(b), peak(a)), "more", "less", "memory"), gib(b.memory.peak_allocated),
      gib(a.memory.peak_allocated), change(ratio(b.time.step, a.time.step), "more", "less", "time"),
      milliseconds(b.time.step), milliseconds(a.time.step),
      b.fit.fits ? "B fits its device." : "B does not fit its device.");
}

std::string verdict(const profile::Diff& d) {
  for (const profile::Change& c : d.totals)
    if (c.name == "peak_allocated")
      return fmt::format("B holds {} at its peak than A ({} against {} GiB).",
                         change(ratio(static_cast<double>(c.b), static_cast<double>(c.a)), "more",
                                "less", "memory"),
                         gib(c.b), gib(c.a));
  return "Two profiles compared.";
}

std::string verdict(const SweepDiff& d) {
  const auto changed = std::count_if(d.rows.begin(), d.rows.end(),
                                     [](const RowChange& r) { return r.delta() != 0; });
  const auto alone =
      std::count_if(d.rows.begin(), d.rows.end(), [](const RowChange& r) { return !r.a || !r.b; });
  if (alone == static_cast<std::ptrdiff_t>(d.rows.size()))
    return fmt::format("No configuration is in both files; each of the {} is in one.",
                       d.rows.size());
  std::string text =
      fmt::format("Of {} configurations {} have another peak", d.rows.size(), changed);
  if (alone > 0) text += fmt::format(" and {} are in one file only", alone);
  if (changed > 0)
    text += fmt::format("; the largest change is {} GiB, of {}", signed_gib(d.rows.front().delta()),
                        d.rows.front().label);
  return text + ".";
}

std::string verdict(const Trace& trace) {
  const auto count = [&](const char* decision) {
    return std::count_if(trace.begin(), trace.end(),
                         [&](const advise::Decision& d) { return d.decision == decision; });
  };
  return fmt::format("Of {} unique ops of a block {} are kept, {} run again, {} alternate.",
                     trace.size(), count("SAVE"), count("RECOMPUTE"), count("ALTERNATE"));
}

std::string verdict(const advise::Largest& largest) { return largest.answer; }

}  // namespace ac_advisor::reports
