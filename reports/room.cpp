#include "reports/room.hpp"

#include <fmt/format.h>

#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

std::string beside(const profile::Fit& f) {
  std::string text = fmt::format("context {} + communication {} + margin {}", gib(f.context),
                                 gib(f.communication), gib(f.margin));
  if (f.engine > 0) text += fmt::format(" + vLLM {}", gib(f.engine));
  return text;
}

std::string with_expandable(const profile::Fit& f) {
  const auto& needs = f.pressure->expandable_reserved;
  if (!needs) return "";
  return fmt::format("\nPYTORCH_ALLOC_CONF=expandable_segments:True reserves {} GiB{}", gib(*needs),
                     *needs <= f.limit() ? ", which fits" : "");
}

std::string releasing(const profile::Fit& f) {
  const profile::Pressure& p = *f.pressure;
  const std::string how = p.retries == 0
                              ? std::string("in its first steps")
                              : fmt::format("{} time{} per step (about {} ms of it)", p.retries,
                                            p.retries > 1 ? "s" : "", milliseconds(p.seconds));
  return fmt::format(
      "fits by releasing cached blocks {}: PyTorch would reserve {} GiB, and {} of {} GiB are left "
      "({})",
      how, gib(p.unlimited_reserved), gib(f.limit()), gib(f.usable), beside(f));
}

std::string refused(const profile::Pressure& p) {
  if (p.refused == 0) return "";
  std::string text = fmt::format("\nout of memory in {}", p.phase);
  if (!p.op.empty()) text += fmt::format(", at {} of {}", p.op, p.module);
  return text + fmt::format(", which asks for {}", gib(p.refused) + " GiB");
}

std::string exceeding(const profile::Profile& profile) {
  const profile::Fit& f = profile.fit;
  const profile::Pressure& p = *f.pressure;
  if (p.excess > 0)
    return fmt::format("does not fit: {} GiB more are allocated than the {} that {} GiB leave ({})",
                       gib(p.excess), gib(f.limit()), gib(f.usable), beside(f));
  return fmt::format(
      "does not fit, by fragmentation: what is allocated ({} GiB) would fit the {} that {} GiB "
      "leave "
      "({}), but no free block is large enough; without a limit {} GiB are reserved",
      gib(profile.memory.peak_allocated), gib(f.limit()), gib(f.usable), beside(f),
      gib(p.unlimited_reserved));
}

}  // namespace

const profile::TaskPhase* deciding_phase(const profile::Profile& profile) {
  for (const profile::TaskPhase& phase : profile.task_phases)
    if (phase.name != "update" && phase.required(profile.fit) == profile.fit.required)
      return &phase;
  return nullptr;
}

std::string room_text(const profile::Profile& profile) {
  const profile::Fit& f = profile.fit;
  if (const profile::TaskPhase* phase = deciding_phase(profile);
      phase != nullptr && phase->engine > 0)
    return fmt::format(
        "{}: needs {} GiB of {} GiB (in {}{}: {} + context {} + communication {} + margin {} + "
        "vLLM {}; the update reserves {})",
        f.fits ? "fits" : "does not fit", gib(f.required), gib(f.usable), phase->name,
        phase->planned ? "" : ", an estimate", gib(phase->allocated), gib(f.context),
        gib(f.communication), gib(f.margin), gib(phase->engine), gib(profile.memory.peak_reserved));
  if (f.generation > profile.memory.peak_reserved && f.required == f.generation + f.beside())
    return fmt::format(
        "{}: needs {} GiB of {} GiB (while completions are written, an estimate: "
        "{} + {}; the step reserves {})",
        f.fits ? "fits" : "does not fit", gib(f.required), gib(f.usable), gib(f.generation),
        beside(f), gib(profile.memory.peak_reserved));
  if (!f.pressure)
    return fmt::format("{}: needs {} GiB of {} GiB (reserved {} + {})",
                       f.fits ? "fits" : "does not fit", gib(f.required), gib(f.usable),
                       gib(profile.memory.peak_reserved), beside(f));
  if (f.fits) return releasing(f) + with_expandable(f);
  return exceeding(profile) + refused(*f.pressure) + with_expandable(f);
}

}  // namespace ac_advisor::reports
