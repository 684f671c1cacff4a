#include <fmt/format.h>
#include <unistd.h>

#include "ac_advisor/gate/date.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/simulate/calibrated.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "cli/commands.hpp"
#include "cli/not_measured.hpp"
#include "cli/output.hpp"
#include "cli/trainer_process.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::cli {
namespace {

std::int64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? std::int64_t{pages} * std::int64_t{size} : 0;
}

std::string rate_text(const simulate::Reached& r) {
  if (r.rate <= 0) return "";
  return simulate::is_product(r.kind) ? fmt::format("{:.3g} GFLOP/s", r.rate / 1e9)
                                      : fmt::format("{:.3g} GB/s", r.rate / 1e9);
}

std::string table(const simulate::Measurements& m, const reports::Style& style) {
  reports::Grid grid({"op", "dtype", "points", "smallest us", "at most"});
  for (const simulate::Reached& r : simulate::reached(m))
    grid.row({simulate::kind_name(r.kind), to_option(r.dtype), std::to_string(r.points),
              fmt::format("{:.3g}", r.least_seconds * 1e6), rate_text(r)});
  return grid.text(style.color);
}

}  // namespace

Result run_calibrate(const Arguments& a) {
  OptionList options{{"--gpu", "cpu"}};
  options.insert(options.end(), a.options.begin(), a.options.end());
  const simulate::Device& device = simulate::find_device(resolve_options(options).device.gpu);
  profile::RunSpec spec;
  spec.calibrate = a.quick ? "quick" : "full";
  spec.configs = {options};
  int exit_code = 0;
  std::string why;
  const std::string text = run_calibration(spec, exit_code, why);
  if (exit_code == 2 || exit_code > 128) return {"", exit_code};
  if (exit_code != 0)
    throw NotMeasured("could not calibrate" + (why.empty() ? std::string() : ": " + why));
  simulate::Measurements m = simulate::read_measurements(text, "ac-trainer's result");
  m.date = gate::to_string(gate::today());
  const std::string file = simulate::calibrated_device_file(simulate::device_file(device.name), m,
                                                            device.cuda ? 0 : machine_memory());
  const simulate::Device calibrated = simulate::parse_device(file, "what was measured");
  const std::string output = a.output.empty() ? calibrated.name + ".json" : a.output;
  write_output(file, output);
  return {table(m, terminal_style("", a.rows)) +
          fmt::format("\n{}\nwritten to {}: give it as --gpu {}\n", calibrated.title, output,
                      output.find('/') == std::string::npos && !output.ends_with(".json")
                          ? "./" + output
                          : output)};
}

}  // namespace ac_advisor::cli
