#include <set>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/simulate/calibrated.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "trainer/calibrate/calibrate.hpp"
#include "trainer/calibrate/programs.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/rank.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor::test {

TEST_CASE("a calibration measures every op kind that a step launches, and its file is read back") {
  trainer::MemoryTracker::install();
  trainer::Calibration c;
  c.extent = "tiny";
  c.config = trainer_config({});
  c.backend = trainer::make_cpu_backend;
  simulate::Measurements m = trainer::calibrate(c);
  m.device = "this CPU";
  m.date = "2026-01-02";
  const std::string file =
      simulate::calibrated_device_file(simulate::device_file("cpu"), m, std::int64_t{1} << 33);
  const simulate::Device device = simulate::parse_device(file, "calibrated");
  REQUIRE(device.measured);
  CHECK(device.measured->series.size() == m.series.size());
  CHECK(file.size() < 300'000);
  for (const char* kernels : {"eager", "fused"})
    for (const char* loss : {"ce", "lc-ce"})
      for (const char* ac : {"none", "full", "selective", "grouped:2"}) {
        const auto built = trainer::build(
            model::load_model("tiny-llama"),
            trainer_config({{"--kernels", kernels}, {"--loss", loss}, {"--ac", ac}}));
        std::set<std::string> missing;
        for (const ir::Op& op : built->step.program.ops)
          if (device.measured->find(simulate::signature(built->step.program, op)) == nullptr)
            missing.insert(simulate::kind_name(op.kind));
        std::string list;
        for (const std::string& name : missing) list += name + " ";
        INFO(kernels, " ", loss, " ", ac, ": ", list);
        CHECK(missing.empty());
      }
}

TEST_CASE("every program of a calibration can be planned") {
  for (const char* extent : {"full", "quick", "tiny"})
    for (const bool cuda : {false, true})
      for (const auto& m : trainer::calibration_set(extent, cuda).models) {
        OptionList options = m.options;
        options.emplace_back("--gpu", "cpu");
        StepConfig config = resolve_options(options);
        config.runtime.kind = Runtime::ac_trainer;
        INFO(extent, " ", cuda, " ", m.spec.family, " ", m.spec.hidden);
        CHECK_NOTHROW(trainer::build(m.spec, config));
      }
}

TEST_CASE("a step of two kinds of ops counts each op once") {
  trainer::Samples samples;
  ir::Program p;
  const auto x = p.make({1000}, DType::f32, ir::Role::activation, {});
  const auto y = p.make({1000}, DType::f32, ir::Role::activation, {});
  static_cast<void>(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  static_cast<void>(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  static_cast<void>(p.emit(ir::OpKind::silu, ir::Phase::forward, {}, {x}, {y}));
  samples.add(p, {{1e-6, 0}, {3e-6, 0}, {5e-6, 0}});
  const auto series = samples.series();
  REQUIRE(series.size() == 2);
  CHECK(series[0].kind == ir::OpKind::neg);
  REQUIRE(series[0].points.size() == 1);
  CHECK(series[0].points[0].size[0] == 8000.0);                 // 4000 bytes read, 4000 written
  CHECK(series[0].points[0].seconds == doctest::Approx(2e-6));  // the mean of 1 and 3
  CHECK(series[1].points[0].seconds == doctest::Approx(5e-6));
}

}  // namespace ac_advisor::test
