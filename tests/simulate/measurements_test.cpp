#include "ac_advisor/simulate/measurements.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/calibrated.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "passes/small_model.hpp"

namespace ac_advisor::test {
namespace {

using doctest::Approx;
using simulate::Measurements;
using simulate::Series;

simulate::Point at(double bytes, double seconds) { return {{bytes, 0, 0, 0}, seconds}; }

/// neg: 1 KB in 1 us, 1 MB in 1 ms. mm (nt): 64 cubed in 1 us, 256 cubed in 16 us.
Measurements small_measurements() {
  Measurements m;
  m.device = "Test CPU";
  m.version = "0";
  m.date = "2026-01-02";
  m.threads = 2;
  m.series.push_back({ir::OpKind::mm,
                      DType::f32,
                      DType::f32,
                      0,
                      0,
                      {{{1, 64, 64, 64}, 1e-6}, {{1, 256, 256, 256}, 16e-6}}});
  m.series.push_back(
      {ir::OpKind::neg, DType::f32, DType::f32, 0, 0, {at(1e3, 1e-6), at(1e6, 1e-3)}});
  return m;
}

std::string device_text() {
  return simulate::calibrated_device_file(simulate::device_file("cpu"), small_measurements(),
                                          std::int64_t{8} << 30);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t found = text.find(what);
  REQUIRE(found != std::string::npos);
  return text.replace(found, what.size(), by);
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(simulate::parse_device(text, "d.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("between two sizes a time lies on the line through them in log-log") {
  const std::vector<simulate::Point> points{at(100, 1e-6), at(10000, 1e-5)};
  CHECK(simulate::interpolate(points, 100) == Approx(1e-6));
  CHECK(simulate::interpolate(points, 10000) == Approx(1e-5));
  // halfway in log of bytes is halfway in log of seconds: 10^-5.5
  CHECK(simulate::interpolate(points, 1000) == Approx(std::pow(10.0, -5.5)));
}

TEST_CASE("beyond the largest size the rate stays, below the smallest the slope, from 0 to 1") {
  const std::vector<simulate::Point> points{at(100, 1e-6), at(10000, 1e-5)};
  CHECK(simulate::interpolate(points, 30000) == Approx(3e-5));
  // slope 1/2: a hundredth of the bytes takes a tenth
  CHECK(simulate::interpolate(points, 1) == Approx(1e-7));
  const std::vector<simulate::Point> falls{at(100, 2e-6), at(1000, 1e-6)};  // slope below 0: none
  CHECK(simulate::interpolate(falls, 1) == Approx(2e-6));
  const std::vector<simulate::Point> steep{at(100, 1e-6), at(200, 1e-5)};  // above 1: as bytes
  CHECK(simulate::interpolate(steep, 10) == Approx(1e-7));
  CHECK(simulate::interpolate({at(100, 1e-6)}, 10) == Approx(1e-7));
}

TEST_CASE("a product runs at the speed of its neighbours, nearer ones counting more") {
  const std::vector<simulate::Point> points{{{1, 64, 64, 64}, 1e-6}, {{1, 64, 64, 1024}, 1e-6}};
  CHECK(simulate::product_seconds(points, {1, 64, 64, 64}) == Approx(1e-6));
  // k = 128 is 1 away from 64 and 3 from 1024, in powers of two: weights 1 and 1/9.
  const double slow = std::log(64.0 * 64 * 64 / 1e-6), fast = std::log(64.0 * 64 * 1024 / 1e-6);
  const double rate = std::exp((slow + fast / 9.0) / (1.0 + 1.0 / 9.0));
  CHECK(simulate::product_seconds(points, {1, 64, 64, 128}) == Approx(64.0 * 64 * 128 / rate));
}

TEST_CASE("every op kind has a name of its own in device files") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < ir::op_kind_count; ++i)
    names.insert(simulate::kind_name(static_cast<ir::OpKind>(i)));
  CHECK(names.size() == ir::op_kind_count);
}

TEST_CASE("measurements are read as they were written") {
  const std::string text = simulate::to_json(small_measurements());
  const Measurements back = simulate::read_measurements(text, "test");
  CHECK(simulate::to_json(back) == text);
  REQUIRE(back.series.size() == 2);
  CHECK(back.series[0].points[1].size == simulate::Size{1, 256, 256, 256});
  CHECK(back.series[1].points[1].seconds == 1e-3);
}

TEST_CASE("the clock takes a measured op's time, and the roofline of one that was not") {
  simulate::Device d = simulate::parse_device(device_text(), "test");
  CHECK_FALSE(d.cuda);
  ir::Program p;
  const auto x = p.make({1250}, DType::f32, ir::Role::activation, {});
  const auto y = p.make({1250}, DType::f32, ir::Role::activation, {});
  const ir::Op neg = p.op(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  // 5000 bytes read and as many written: a rate of 1 byte a nanosecond at every size
  CHECK(simulate::op_seconds(p, neg, d, 1) == Approx(10000 * 1e-9));
  const ir::Op exp = p.op(p.emit(ir::OpKind::exp, ir::Phase::forward, {}, {x}, {y}));
  CHECK(simulate::op_seconds(p, exp, d, 1) ==
        Approx(10000 / (d.bandwidth * d.pointwise_bandwidth)));
}

TEST_CASE("on a measured CPU a step is the sum of its ops, without the host's time again") {
  simulate::Device d = simulate::parse_device(device_text(), "test");
  d.forward_op_seconds = 1.0;  // would be seen
  passes::StepProgram step;
  step.micro_begin = {0};
  ir::Program& p = step.program;
  const auto x = p.make({125}, DType::f32, ir::Role::activation, {});
  for (int i = 0; i < 3; ++i) {
    const auto y = p.make({125}, DType::f32, ir::Role::activation, {});
    static_cast<void>(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  }
  const simulate::StepTime time = simulate::walk_time(step, d, 1, 1);
  CHECK(time.step == Approx(3 * 1e-6));  // three times 1 KB
  CHECK(time.unmeasured == 0);
}

TEST_CASE("on a measured GPU the host issues what it was measured to take") {
  simulate::Device d;
  Measurements m = small_measurements();
  for (Series& s : m.series) s.issue_seconds = 1e-4;
  d.measured = std::make_shared<const Measurements>(m);
  passes::StepProgram step;
  step.micro_begin = {0};
  ir::Program& p = step.program;
  const auto x = p.make({125}, DType::f32, ir::Role::activation, {});
  for (int i = 0; i < 3; ++i) {
    const auto y = p.make({125}, DType::f32, ir::Role::activation, {});
    static_cast<void>(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  }
  // each kernel of 1 us is done long before the next is issued
  CHECK(simulate::walk_time(step, d, 1, 1).step == Approx(3 * 1e-4 + 1e-6));
}

TEST_CASE(
    "of products in FP8, which nothing measures, a calibrated file has bf16's share of the peak") {
  Measurements m = small_measurements();
  m.series.front().in = m.series.front().out = DType::bf16;
  const std::string text =
      simulate::calibrated_device_file(simulate::device_file("h100-80gb"), m, 0);
  const simulate::Device d = simulate::parse_device(text, "d.json");
  // 2 x 256^3 FLOP in 16 us; 1978.9 TFLOP/s in FP8 for 989.4 in bf16
  CHECK(d.bf16_flops == Approx(2.097e12));
  CHECK(d.fp8_flops == Approx(d.bf16_flops * 1978.9 / 989.4).epsilon(0.001));
}

TEST_CASE("what is wrong in a device file is named") {
  const std::string good = device_text();
  CHECK(error_of(good) == "no error");
  CHECK(contains(error_of("not JSON"), "d.json: line 1, column "));
  CHECK(contains(error_of(replaced(good, "\"usable_bytes\"", "\"usable\"")),
                 "\"usable_bytes\" is missing"));
  CHECK(contains(error_of(replaced(good, "\"kind\": \"cpu\"", "\"kind\": \"tpu\"")), "\"kind\""));
  CHECK(contains(error_of(replaced(good, "\"threads\": 2", "\"threads\": \"two\"")),
                 "\"measurements.threads\": \"two\" must be an integer"));
  CHECK(contains(error_of(replaced(good, "[1000,1e-06]", "[1000,-1e-06]")),
                 "\"measurements.series[1].points[0][1]\": -1e-06 must be a number of at least 0"));
  CHECK(contains(error_of(replaced(good, "[1000,1e-06]", "[2000000,1e-06]")),
                 "points[1]\": (a list) is not larger than the one before it"));
  CHECK(contains(error_of(replaced(good, "[1000,1e-06]", "[1000]")),
                 "must be [bytes, seconds] or [bytes, surroundings, seconds]"));
  CHECK(
      contains(error_of(replaced(good, "\"op\":\"neg\"", "\"op\":\"frobnicate\"")), "frobnicate"));
}

TEST_CASE("times at two sizes among small and among large ops are told apart") {
  // 1 us for 1000 bytes and 2 us for 4000 among ops of 1 KB; four times that among ops of 1 MB.
  const auto point = [](double bytes, double around, double seconds) {
    return simulate::Point{{bytes, around, 0, 0}, seconds};
  };
  const std::vector<simulate::Point> points{point(1000, 1e3, 1e-6), point(1000, 1e6, 4e-6),
                                            point(4000, 1e3, 2e-6), point(4000, 1e6, 8e-6)};
  for (const simulate::Point& p : points)
    CHECK(simulate::local_seconds(points, p.size) == Approx(p.seconds).epsilon(0.05));
  // Half-way in log on both: the geometric means.
  CHECK(simulate::local_seconds(points, {2000, std::sqrt(1e9), 0, 0}) ==
        Approx(2 * std::sqrt(2.0) * 1e-6).epsilon(0.05));
  // One point: as many bytes, as long a time.
  CHECK(simulate::local_seconds({point(1000, 1e3, 1e-6)}, {3000, 1e3, 0, 0}) == Approx(3e-6));
}

TEST_CASE("surroundings are the mean traffic of the ops that launch") {
  ir::Program p;
  const auto x = p.make({1000}, DType::f32, ir::Role::activation, {});
  const auto y = p.make({1000}, DType::f32, ir::Role::activation, {});
  const auto small = p.make({10}, DType::f32, ir::Role::activation, {});
  const auto z = p.make({10}, DType::f32, ir::Role::activation, {});
  static_cast<void>(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  static_cast<void>(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {small}, {z}));
  CHECK(simulate::surroundings(p) == 4040.0);  // (8000 + 80) / 2
}

TEST_CASE("a pointwise op that repeats an operand is not the one that does not") {
  ir::Program p;
  const auto x = p.make({8, 4}, DType::f32, ir::Role::activation, {});
  const auto of_rows = p.make({8, 1}, DType::f32, ir::Role::activation, {});
  const auto of_columns = p.make({4}, DType::f32, ir::Role::activation, {});
  const auto y = p.make({8, 4}, DType::f32, ir::Role::activation, {});
  const auto name = [&](ir::ValueId other) {
    const auto id = p.emit(ir::OpKind::mul, ir::Phase::forward, {}, {x, other}, {y});
    return simulate::variant_name(ir::OpKind::mul, simulate::signature(p, p.op(id)).variant);
  };
  CHECK(name(x) == "plain");
  CHECK(name(of_rows) == "rows");
  CHECK(name(of_columns) == "columns");
}

TEST_CASE("a device file is a device by its path, with its own kind and threads") {
  const auto path =
      std::filesystem::temp_directory_path() /
      ("calibrated" + std::to_string(std::hash<std::string>{}(device_text())) + ".json");
  std::ofstream(path) << device_text();
  const OptionList options{{"--gpu", path.string()}, {"--threads", "4"}};
  const profile::Profile p = advise::plan(small_model(), resolve_options(options));
  std::filesystem::remove(path);
  CHECK(p.device_name == "test-cpu-2-threads");
  CHECK(p.time.basis == profile::TimeBasis::calibrated);
  CHECK(p.fit.usable == std::int64_t{8} << 30);
  CHECK(p.fit.context == 0);  // as on every CPU
  REQUIRE(p.warnings.size() == 1);
  CHECK(contains(p.warnings[0], "calibrated with 2"));
  bool said = false;
  for (const std::string& note : p.assumptions)
    said = said || contains(note, "times are calibrated: predicted from ops measured on Test CPU");
  CHECK(said);
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate::find_device("no/such/file.json")),
                       doctest::Contains("cannot be read"), UserError);
}

}  // namespace ac_advisor::test
