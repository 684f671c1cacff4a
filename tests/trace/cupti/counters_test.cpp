// The counters over a libcupti that holds them to CUPTI's order of calls, and counts what it is
// told.
#include "trainer/counters/counters.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "ac_advisor/trace/injection.hpp"
#include "injection/cupti/paths.hpp"
#include "trace/find.hpp"
#include "trainer/counters/cupti/metrics.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trainer;
using test::has;

namespace {

const std::string folder = std::string(test::binary_dir) + "/fake_counters/";

/// A process that has loaded CUDA's driver, and its CUPTI in `mode`.
class Fakes {
 public:
  explicit Fakes(const char* mode, const std::string& cupti = folder + "libcupti.so")
      : cuda_(dlopen((folder + "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL)),
        cupti_(dlopen((folder + "libcupti.so").c_str(), RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(cuda_ != nullptr);
    REQUIRE(cupti_ != nullptr);
    ::setenv(trace::cupti_variable, cupti.c_str(), 1);
    call<void(bool)>(cuda_, "fake_set_current")(true);
    call<void(const char*)>(cupti_, "fake_reset")(mode);
  }
  ~Fakes() { ::unsetenv(trace::cupti_variable); }
  Fakes(const Fakes&) = delete;
  Fakes& operator=(const Fakes&) = delete;

  std::string log() { return call<const char*()>(cupti_, "fake_log")(); }
  int host_objects() { return call<int()>(cupti_, "fake_host_objects")(); }
  void no_context() { call<void(bool)>(cuda_, "fake_set_current")(false); }
  void count(Counters& counters, const char* range, double read, double write, double percent,
             double ns) {
    call<void(double, double, double, double)>(cupti_, "fake_next")(read, write, percent, ns);
    counters.push(range);
    counters.pop();
  }

 private:
  template <typename Function>
  static Function* call(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
  void* cuda_;
  void* cupti_;
};

std::string why_not_open() {
  std::string why_not;
  CHECK(Counters::open(why_not) == nullptr);
  return why_not;
}

Counted count_one(Fakes& fakes) {
  std::string why_not;
  const auto counters = Counters::open(why_not);
  CAPTURE(why_not);
  REQUIRE(counters != nullptr);
  counters->begin(1);
  fakes.count(*counters, "forward", 1, 2, 3, 4);
  return counters->end();
}

const std::string opened =
    "initialize supported availability availability chip host metrics config-size config passes";
const std::string begun = " enable data-size data set-config start";

}  // namespace

TEST_CASE("counters: one pass in the order that CUPTI documents") {
  Fakes fakes("");
  const Counted counted = count_one(fakes);
  CHECK(counted.why_not == "");
  CHECK(fakes.log() ==
        opened + begun + " push pop stop decode info range evaluate disable no-host");
  CHECK(fakes.host_objects() == 0);
}

TEST_CASE("counters: a range that is entered many times is one row, its percentage by time") {
  Fakes fakes("");
  std::string why_not;
  const auto counters = Counters::open(why_not);
  REQUIRE(counters != nullptr);
  counters->begin(300);
  fakes.count(*counters, "forward", 1000, 500, 40, 3e6);
  for (int i = 0; i < 100; ++i) {
    fakes.count(*counters, "recompute", 10, 1, 80, 1e6);
    fakes.count(*counters, "backward", 20, 2, i < 50 ? 10 : 60, i < 50 ? 3e6 : 1e6);
  }
  const Counted counted = counters->end();
  REQUIRE(counted.why_not == "");
  REQUIRE(counted.ranges.size() == 3);
  const RangeTraffic &forward = counted.ranges[0], &recompute = counted.ranges[1],
                     &backward = counted.ranges[2];
  CHECK(forward.name == "forward");
  CHECK(forward.ranges == 1);
  CHECK(forward.dram_read_bytes == 1000);
  CHECK(forward.dram_write_bytes == 500);
  CHECK(*forward.dram_percent_of_peak == doctest::Approx(40));
  CHECK(*forward.seconds == doctest::Approx(0.003));
  CHECK(recompute.name == "recompute");
  CHECK(recompute.ranges == 100);
  CHECK(recompute.dram_read_bytes == 1000);
  CHECK(*recompute.seconds == doctest::Approx(0.1));
  CHECK(backward.dram_write_bytes == 200);
  // 50 × 3 ms at 10 %, 50 × 1 ms at 60 %: (150 × 10 + 50 × 60) / 200 = 22.5 %.
  CHECK(*backward.dram_percent_of_peak == doctest::Approx(22.5));
}

TEST_CASE("counters: a second step is counted anew") {
  Fakes fakes("");
  std::string why_not;
  const auto counters = Counters::open(why_not);
  REQUIRE(counters != nullptr);
  for (int step = 0; step < 2; ++step) {
    counters->begin(2);
    fakes.count(*counters, "forward", 7, 1, 1, 1);
    const Counted counted = counters->end();
    CHECK(counted.why_not == "");
    REQUIRE(counted.ranges.size() == 1);
    CHECK(counted.ranges[0].dram_read_bytes == 7);
  }
}

TEST_CASE("counters: where all metrics need two passes the bytes alone are counted, nothing is 0") {
  Fakes fakes("two-passes");
  const Counted counted = count_one(fakes);
  CHECK(counted.why_not == "");
  REQUIRE(counted.ranges.size() == 1);
  CHECK(counted.ranges[0].dram_read_bytes == 1);
  CHECK(counted.ranges[0].dram_write_bytes == 2);
  CHECK_FALSE(counted.ranges[0].dram_percent_of_peak);
  CHECK_FALSE(counted.ranges[0].seconds);
  CHECK(fakes.host_objects() == 0);
}

TEST_CASE("counters: what the availability image leaves out is tried without it") {
  Fakes fakes("unavailable");
  const Counted counted = count_one(fakes);
  CHECK(counted.why_not == "");
  REQUIRE(counted.ranges.size() == 1);
  CHECK(counted.ranges[0].dram_percent_of_peak);
  CHECK(fakes.host_objects() == 0);
}

TEST_CASE("counters: a step without any traffic was not counted, whatever CUPTI says") {
  Fakes fakes("");
  std::string why_not;
  const auto counters = Counters::open(why_not);
  REQUIRE(counters != nullptr);
  counters->begin(1);
  fakes.count(*counters, "forward", 0, 0, 0, 1e6);
  const Counted counted = counters->end();
  CHECK(counted.ranges.empty());
  CHECK(has(counted.why_not, "no DRAM traffic"));
}

TEST_CASE("counters: bytes that need two passes are refused: a step is run once") {
  Fakes fakes("two-passes-always");
  CHECK(has(why_not_open(), "2 passes"));
  CHECK(fakes.host_objects() == 0);
}

TEST_CASE("counters: refused permission names the capability and the driver's option") {
  for (const char* mode : {"denied", "denied-at-start"}) {
    CAPTURE(mode);
    Fakes fakes(mode);
    const bool late = std::string(mode) != "denied";
    const Counted counted = late ? count_one(fakes) : Counted{{}, why_not_open()};
    CHECK(counted.ranges.empty());
    CHECK(has(counted.why_not, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
    CHECK(has(counted.why_not, "CAP_SYS_ADMIN"));
    CHECK(has(counted.why_not, "NVreg_RestrictProfilingToAdminUsers=0"));
    CHECK(has(counted.why_not, "/etc/modprobe.d/"));
    CHECK_FALSE(has(fakes.log(), "push"));
    if (late) CHECK(has(fakes.log(), "set-config disable"));
  }
}

TEST_CASE("counters: a virtual GPU, an unknown chip, another profiler and an old CUPTI are told") {
  {
    Fakes fakes("virtual");
    CHECK(has(why_not_open(), "virtualised"));
  }
  {
    Fakes fakes("unknown-chip");
    CHECK(has(why_not_open(), "does not know the device"));
  }
  {
    Fakes fakes("busy");
    CHECK(has(count_one(fakes).why_not, "another profiler"));
  }
  {
    Fakes fakes("old");
    CHECK(has(why_not_open(), "older than CUDA 13"));
  }
}

TEST_CASE("counters: a missing libcupti and a missing libnvperf_host are told, with the package") {
  {
    Fakes fakes("", folder + "nowhere/libcupti.so");
    const std::string why_not = why_not_open();
    CHECK(has(why_not, "nowhere/libcupti.so"));
    CHECK(has(why_not, "cuda-cupti-13-0"));
  }
  const std::string lonely = folder + "lonely/";
  std::filesystem::create_directories(lonely);
  std::filesystem::copy_file(folder + "libcupti.so", lonely + "libcupti.so",
                             std::filesystem::copy_options::overwrite_existing);
  Fakes fakes("", lonely + "libcupti.so");
  const std::string why_not = why_not_open();
  CHECK(has(why_not, "libnvperf_host.so does not load"));
  CHECK(has(why_not, "cuda-cupti-13-0"));
}

TEST_CASE("counters: without a CUDA context nothing is counted") {
  Fakes fakes("");
  fakes.no_context();
  CHECK(has(why_not_open(), "no CUDA context"));
  CHECK(fakes.log() == "");
}

TEST_CASE("counters: what fails after the step leaves no half of the figures") {
  const struct {
    const char *mode, *told;
  } cases[] = {{"decode", "cuptiRangeProfilerDecodeData"},
               {"drops", "3 ranges were dropped"},
               {"again", "another pass"},
               {"lost", "CUPTI counted 0"},
               {"no-value", "cuptiProfilerHostEvaluateToGpuValues"}};
  for (const auto& c : cases) {
    CAPTURE(c.mode);
    Fakes fakes(c.mode);
    const Counted counted = count_one(fakes);
    CHECK(counted.ranges.empty());
    CHECK(has(counted.why_not, c.told));
    CHECK(has(fakes.log(), "disable"));
    CHECK_FALSE(has(fakes.log(), "OUT OF ORDER"));
  }
}

TEST_CASE("counters: a caller's mistakes are told: too many ranges, one in another, none begun") {
  Fakes fakes("");
  std::string why_not;
  const auto counters = Counters::open(why_not);
  REQUIRE(counters != nullptr);
  CHECK(has(counters->end().why_not, "without begin"));
  counters->begin(1);
  fakes.count(*counters, "a", 1, 1, 1, 1);
  fakes.count(*counters, "b", 1, 1, 1, 1);
  CHECK(has(counters->end().why_not, "more than 1 ranges"));
  counters->begin(2);
  counters->push("a");
  counters->push("b");
  CHECK(has(counters->end().why_not, "inside another"));
  CHECK_FALSE(has(fakes.log(), "OUT OF ORDER"));
}

TEST_CASE("counters: given up in the middle of a range, the profiler is left in order") {
  Fakes fakes("");
  std::string why_not;
  auto counters = Counters::open(why_not);
  REQUIRE(counters != nullptr);
  counters->begin(2);
  counters->push("forward");
  counters.reset();
  CHECK(fakes.log() == opened + begun + " push pop stop disable no-host");
}

// Needs the toolkit's libcupti, no GPU: CUPTI's host side knows every chip.
TEST_CASE("counters: the metrics fit one pass by the toolkit's own CUPTI" * doctest::skip()) {
  ::setenv(trace::cupti_variable, trace::cupti_libraries[0], 1);
  counters::Api api;
  REQUIRE(counters::load(api) == "");
  for (const char* chip : {"GH100", "GA100", "AD102"}) {
    CAPTURE(chip);
    std::string why_not;
    const auto metrics = counters::Metrics::make(api, chip, {}, why_not);
    CAPTURE(why_not);
    REQUIRE(metrics != nullptr);
    CHECK(metrics->names().size() == std::size(counters::metric_names));  // none had to be left out
  }
  ::unsetenv(trace::cupti_variable);
}
