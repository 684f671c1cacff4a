// Markdown, for a pull request's comment.
#include <fmt/format.h>

#include "reports/grids.hpp"

namespace ac_advisor::reports {

std::string markdown(const profile::Profile& p) {
  Grid head({"model", "peak GiB", "reserved GiB", "phase", "fits", "est. ms/step"});
  head.row({p.model.name, gib(p.memory.peak_allocated), gib(p.memory.peak_reserved),
            p.memory.peak_phase, p.fit.fits ? "yes" : "no", milliseconds(p.time.step)});
  return head.markdown() + "\n" + category_grid(p).markdown() + "\n" + phase_grid(p).markdown();
}

std::string markdown(const advise::Sweep& sweep) {
  std::string text = "### Savings, cumulative\n\n" + savings_grid(sweep).markdown();
  text += "\n### Ranked by estimated throughput\n\n" + ranking_grid(sweep, 20).markdown();
  if (sweep.rows.size() > 20) text += fmt::format("\n{} others.\n", sweep.rows.size() - 20);
  return text + "\n**Recommendation:** " + sweep.recommendation + "\n";
}

std::string markdown(const profile::Diff& d) {
  std::string text;
  if (!d.fields.empty()) text += field_grid(d).markdown() + "\n";
  return text + change_grid("GiB", d.totals, true).markdown() + "\n" +
         change_grid("at the peak", d.categories, true).markdown();
}

}  // namespace ac_advisor::reports
