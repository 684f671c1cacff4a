#include "measured_json.hpp"

#include <cmath>

namespace ac_advisor::profile {
namespace {

template <typename Figures, typename Io>
void visit_numerics(Figures& n, const Io& io) {
  io("gradient_digest", n.gradient_digest);
  io("parity_error", n.parity_error);
  io("parity", n.parity);
  io("reference", n.reference);
}

template <typename Figures, typename Io>
void visit_instruments(Figures& all, const Io& io) {
  io("dram_read_bytes", all.dram_read_bytes);
  io("dram_write_bytes", all.dram_write_bytes);
  io("dram_percent_of_peak", all.dram_percent_of_peak);
  io("gaps_over_50_us", all.long_gaps);
  io("gap_seconds", all.long_gap_seconds);
  io("idle_seconds", all.idle_seconds);
}

template <typename Figures, typename Io>
void visit_step(Figures& whole, const Io& io) {
  io("kernels", whole.kernels);
  io("launches", whole.launches);
  io("gaps_over_50_us", whole.long_gaps);
  io("gap_seconds", whole.long_gap_seconds);
  io("idle_seconds", whole.idle_seconds);
}

}  // namespace

Json numerics_json(const Numerics& n) {
  Json out = {{"losses", n.losses}};
  visit_numerics(n, Writing{out});
  return out;
}

void read_numerics(const Reader& r, Numerics& n) {
  for (const Reader& item : r.at("losses").list()) {
    n.losses.push_back(std::nan(""));  // JSON has no other way to say it than null
    if (!item.node().is_null()) item >> n.losses.back();
  }
  visit_numerics(n, Reading{r});
}

Json instruments_json(const Instruments& all) {
  Json runs = Json::array(), overheads = Json::object();
  for (const Instruments::Run& run : all.runs) {
    runs.push_back({{"instrument", run.instrument}, {"step_seconds", run.step_seconds}});
    if (const auto percent = all.overhead_percent(run)) overheads[run.instrument] = *percent;
  }
  Json out = {{"runs", runs}, {"overhead_percent", overheads}};
  visit_instruments(all, Writing{out});
  if (all.whole) visit_step(*all.whole, Writing{out["step"]});
  return out;
}

void read_instruments(const Reader& r, Instruments& all) {
  for (const Reader& run : r.at("runs").list()) {
    run.at("instrument") >> all.runs.emplace_back().instrument;
    run.at("step_seconds") >> all.runs.back().step_seconds;
  }
  visit_instruments(all, Reading{r});
  if (r.has("step")) visit_step(all.whole.emplace(), Reading{r.at("step")});
}

}  // namespace ac_advisor::profile
