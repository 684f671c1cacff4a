#include "fit_json.hpp"

namespace ac_advisor::profile {
namespace {

template <typename Bytes, typename Io>
void visit_fit(Bytes& f, const Io& io) {
  io("fits", f.fits);
  io("required_bytes", f.required);
  io("usable_bytes", f.usable);
  io("context_bytes", f.context);
  io("communication_bytes", f.communication);
  io("margin_bytes", f.margin);
}

template <typename Figures, typename Io>
void visit_pressure(Figures& p, const Io& io) {
  io("reserved_without_limit_bytes", p.unlimited_reserved);
  io("retries", p.retries);
  io("released_segments", p.released_segments);
  io("seconds", p.seconds);
  io("excess_bytes", p.excess);
}

template <typename Figures, typename Io>
void visit_refused(Figures& p, const Io& io) {
  io("bytes", p.refused);
  io("phase", p.phase);
  io("op", p.op);
  io("module", p.module);
}

}  // namespace

const char* to_string(const Fit& fit) {
  if (!fit.fits) return "does_not_fit";
  return fit.pressure ? "fits_by_releasing" : "fits";
}

Json fit_json(const Fit& f) {
  Json out;
  visit_fit(f, Writing{out});
  if (f.engine > 0) out["engine_bytes"] = f.engine;
  if (f.generation > 0) out["generation_peak_bytes"] = f.generation;
  out["verdict"] = to_string(f);
  if (!f.pressure) return out;
  Json& pressure = out["pressure"];
  visit_pressure(*f.pressure, Writing{pressure});
  if (f.pressure->expandable_reserved)
    pressure["expandable_segments_reserved_bytes"] = *f.pressure->expandable_reserved;
  if (f.pressure->refused > 0) visit_refused(*f.pressure, Writing{pressure["refused"]});
  return out;
}

/// Older files have no pressure.
void read_fit(const Reader& r, Fit& f) {
  visit_fit(f, Reading{r});
  if (r.is_absent()) return;
  if (r.has("engine_bytes")) r.at("engine_bytes") >> f.engine;
  if (r.has("generation_peak_bytes")) r.at("generation_peak_bytes") >> f.generation;
  if (!r.has("pressure")) return;
  Pressure& p = f.pressure.emplace();
  const Reader pressure = r.at("pressure");
  visit_pressure(p, Reading{pressure});
  if (pressure.has("expandable_segments_reserved_bytes"))
    pressure.at("expandable_segments_reserved_bytes") >> p.expandable_reserved.emplace();
  if (pressure.has("refused")) visit_refused(p, Reading{pressure.at("refused")});
}

}  // namespace ac_advisor::profile
