#include <doctest/doctest.h>

#include <filesystem>

#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/trace/machine.hpp"
#include "reports/grid.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

using State = Check::State;

/// A machine on which everything works.
Machine whole() {
  Machine m;
  m.kernel_module = "580.65.06";
  m.device_files = {"/dev/nvidia0"};
  m.driver_cuda = 13000;
  m.nvml = true;
  m.gpus = {{"NVIDIA H200", std::int64_t{150} << 30}};
  m.counters_for_admin_only = false;
  m.injection = {.library = "/lib/i.so", .built_with = "CUPTI 13.0.1"};
  m.cupti = {{"libcupti.so.13", 130001, "", true, ""}};
  return m;
}

const Check& check(const Examination& e, const std::string& name) {
  for (const Check& c : e.checks)
    if (c.name == name) return c;
  FAIL(name);
  return e.checks.front();
}

/// "yes" and "no" of the abilities, in order.
std::string abilities(const Examination& e) {
  std::string text;
  for (const Ability& a : e.abilities) text += a.can ? 'y' : 'n';
  return text;
}

void put(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("doctor: on a machine that has everything, everything can be measured") {
  const Examination e = examine(whole());
  for (const Check& c : e.checks) {
    CAPTURE(c.name);
    CHECK(c.state == State::fine);
    CHECK(c.way_out.empty());
  }
  CHECK(abilities(e) == "yyyyyyy");
}

TEST_CASE("doctor: without a driver predictions and reading traces work, and the way is told") {
  Machine m;
  m.libcuda_error = "libcuda.so.1: cannot open shared object file";
  m.nvml_error = "libnvidia-ml.so.1: cannot open shared object file";
  m.injection.reason = "this build has no CUPTI support";
  const Examination e = examine(m);
  CHECK(abilities(e) == "yynnnnn");
  CHECK(check(e, "driver").state == State::missing);
  CHECK(test::has(check(e, "driver").way_out, "install the driver"));
  CHECK(test::has(check(e, "device").found, "no driver"));
  CHECK(test::has(check(e, "tracing library").way_out, "no CUPTI support"));
  m.container = true;
  CHECK(test::has(check(examine(m), "driver").way_out, "--gpus all"));
}

TEST_CASE("doctor: a driver without a device") {
  Machine m = whole();
  m.gpus.clear();
  m.device_files.clear();
  const Examination e = examine(m);
  CHECK(check(e, "driver").state == State::fine);
  CHECK(check(e, "device").state == State::missing);
  CHECK(test::has(check(e, "device").found, "a device is not"));
  CHECK(abilities(e) == "yynnnnn");
}

TEST_CASE("doctor: a kernel module without libcuda is a container without the toolkit") {
  Machine m = whole();
  m.driver_cuda.reset();
  m.gpus.clear();
  m.container = true;
  CHECK(test::has(check(examine(m), "driver").way_out, "NVIDIA_DRIVER_CAPABILITIES"));
  m.container = false;
  CHECK(test::has(check(examine(m), "driver").way_out, "libcuda1"));
}

TEST_CASE("doctor: counters for administrators only name the driver's option and the capability") {
  Machine m = whole();
  m.counters_for_admin_only = true;
  const Examination e = examine(m);
  CHECK(check(e, "hardware counters").state == State::limited);
  CHECK(test::has(check(e, "hardware counters").way_out, "NVreg_RestrictProfilingToAdminUsers=0"));
  CHECK(test::has(check(e, "hardware counters").way_out, "CAP_SYS_ADMIN"));
  CHECK(abilities(e) == "yyyyynn");  // all else works
  m.admin = true;
  CHECK(check(examine(m), "hardware counters").state == State::fine);
  m.admin = false;
  m.container = true;
  CHECK(test::has(check(examine(m), "hardware counters").way_out, "--cap-add SYS_ADMIN"));
}

TEST_CASE("doctor: what the counters of the trainer's step need is named, one by one") {
  const auto library = [](const Machine& m) { return check(examine(m), "counters' library"); };
  CHECK(library(whole()).state == State::fine);
  Machine m = whole();
  m.cupti[0].nvperf_error = "cannot open shared object file";
  CHECK(library(m).state == State::missing);
  CHECK(test::has(library(m).found, "libnvperf_host.so"));
  CHECK(test::has(library(m).way_out, "cuda-cupti-13-0"));
  CHECK(abilities(examine(m)) == "yyyyyyn");                          // all else works
  CHECK(examine(m).abilities.back().why == "see counters' library");  // and nothing else is named
  m = whole();
  m.cupti = {{"libcupti.so.12", 26, "", false, ""}};
  CHECK(test::has(library(m).found, "no libcupti.so.13"));
  CHECK(check(examine(m), "CUPTI").state == State::fine);  // which traces
  m = whole();
  m.driver_cuda = 12040;
  CHECK(test::has(library(m).found, "the driver is of CUDA 12.4"));
  CHECK(test::has(library(m).way_out, "580"));
  m.injection.built_with.clear();
  CHECK(library(m).state == State::missing);
}

TEST_CASE("doctor: CUPTI of CUDA 13 over a driver of CUDA 12") {
  Machine m = whole();
  m.driver_cuda = 12040;
  const Check only_13 = check(examine(m), "CUPTI");
  CHECK(only_13.state == State::limited);
  CHECK(test::has(only_13.found, "the driver of CUDA 12.4"));
  CHECK(test::has(only_13.way_out, "580"));
  m.cupti.push_back({"libcupti.so.12", 26, ""});
  CHECK(check(examine(m), "CUPTI").state == State::fine);
  CHECK(test::has(check(examine(m), "CUPTI").found, "libcupti.so.12"));
  m.cupti = {{"libcupti.so.13", 0, "cannot open"}};
  CHECK(check(examine(m), "CUPTI").state == State::missing);
}

TEST_CASE("doctor: another tool that is injected already is named") {
  Machine m = whole();
  m.environment["CUDA_INJECTION64_PATH"] = "/opt/nsys/libToolsInjection64.so";
  CHECK(check(examine(m), "other tools").state == State::limited);
  CHECK(test::has(check(examine(m), "other tools").way_out, "unset CUDA_INJECTION64_PATH"));
  CHECK(abilities(examine(m)).substr(2, 2) == "nn");
}

TEST_CASE("doctor: devices that CUDA_VISIBLE_DEVICES hides") {
  Machine m = whole();
  m.environment["CUDA_VISIBLE_DEVICES"] = "";
  CHECK(check(examine(m), "device").state == State::limited);
  CHECK(test::has(check(examine(m), "device").way_out, "unset"));
}

TEST_CASE("the machine's files are read as the driver writes them") {
  const std::filesystem::path root = std::filesystem::path(test::binary_dir) / "machine_root";
  std::filesystem::remove_all(root);
  put(root / "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
      "GCC version:  gcc version 12.2.0\n");
  put(root / "proc/driver/nvidia/params",
      "EnableMSI: 1\nRmProfilingAdminOnly: 1\nDeviceFileUID: 0\n");
  put(root / "proc/self/status", "Name:\tx\nCapEff:\t0000000000200000\n");
  for (const char* name : {"nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm", "null"})
    put(root / "dev" / name, "");
  put(root / ".dockerenv", "");
  const Machine m = look_at_files(root.string());
  CHECK(m.kernel_module == "550.54.15");
  CHECK(m.counters_for_admin_only == true);
  CHECK(m.admin);  // bit 21
  CHECK(m.device_files == std::vector<std::string>{"/dev/nvidia0", "/dev/nvidia1"});
  CHECK(m.container);
  CHECK_FALSE(m.wsl);
  // An empty root: nothing is known, and nothing fails.
  const Machine empty = look_at_files((root / "none").string());
  CHECK(empty.kernel_module.empty());
  CHECK_FALSE(empty.counters_for_admin_only);
  CHECK_FALSE(empty.admin);
}

TEST_CASE("an examination is rendered in 80 columns in every format") {
  Machine m = whole();
  m.gpus[0].name = std::string(200, 'x') + "\033[2J";
  m.counters_for_admin_only = true;
  const Examination e = examine(m);
  std::istringstream lines(reports::table(e, {}));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(reports::columns(line) <= 80);
    CHECK_FALSE(test::has(line, "\033"));
  }
  CHECK_FALSE(test::has(reports::markdown(e), "\033"));
  CHECK(test::has(reports::json(e), "\"state\": \"limited\""));
  CHECK(test::has(reports::csv(e), "hardware counters,limited"));
}
