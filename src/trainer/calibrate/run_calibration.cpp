#include "trainer/calibrate/run_calibration.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/version.hpp"
#include "trainer/calibrate/calibrate.hpp"
#include "trainer/rank.hpp"
#include "trainer/run.hpp"
#include "trainer/stop.hpp"

namespace ac_advisor::trainer {
namespace {

/// As the kernel calls it; "CPU" where it does not say.
std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "CPU";
}

void draw(const std::string& what, double share) {
  constexpr std::size_t width = 20;
  std::string bar(static_cast<std::size_t>(share * width), '#');
  bar.resize(width, '.');
  std::fprintf(stderr, "\r\033[K[%s] %s", bar.c_str(), what.c_str());
  std::fflush(stderr);
}

}  // namespace

std::string run_calibration(const profile::RunSpec& spec) {
  if (spec.configs.size() != 1)
    throw UserError("\"configs\": a calibration takes one, with the device and its threads");
  Calibration c;
  c.extent = spec.calibrate;
  c.config = resolve_options(spec.configs.front());
  c.config.runtime.kind = Runtime::ac_trainer;
  const bool cuda = simulate::find_device(c.config.device.gpu).cuda;
  c.backend = [cuda] { return cuda ? make_cuda_backend(0) : make_cpu_backend(); };
  const std::string name = cuda ? c.backend()->name() : cpu_name();
  MemoryTracker::install();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  c.progress = [&](const std::string& what, double share) {
    if (stopping()) throw Failure{stopped_exit_code(), "stopped"};
    if (terminal) draw(what, share);
  };
  simulate::Measurements measurements = calibrate(c);
  if (terminal) std::fputs("\r\033[K", stderr);
  measurements.device = name;
  measurements.version = version;
  return simulate::to_json(measurements);
}

}  // namespace ac_advisor::trainer
