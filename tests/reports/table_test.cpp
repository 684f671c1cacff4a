#include <doctest/doctest.h>

#include <sstream>

#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/advise/module_costs.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/measurement.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "profile/full_profile.hpp"
#include "reports/grid.hpp"
#include "reports/largest.hpp"
#include "reports/small_sweep.hpp"

using namespace ac_advisor;

namespace {

void check_width(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(reports::columns(line) <= 80);
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Lines that were wrapped, as they were.
std::string unwrapped(std::string text) {
  for (std::size_t at; (at = text.find("\n  ")) != std::string::npos;) text.replace(at, 3, " ");
  return text;
}

}  // namespace

TEST_CASE("tables of every sample fit 80 columns") {
  for (const std::string& name : model::sample_names()) {
    CAPTURE(name);
    const model::ModelSpec model = model::load_model(name);
    for (const OptionList& options :
         {OptionList{{"--batch", "4"}}, OptionList{{"--ac", "full"},
                                                   {"--ac-scope", "submodule"},
                                                   {"--loss", "chunked:1024"},
                                                   {"--world", "512"},
                                                   {"--shard", "hsdp:8"},
                                                   {"--kernels", "fused"},
                                                   {"--keep-last-block", ""},
                                                   {"--optimizer", "adamw-foreach"}}}) {
      const StepConfig config = resolve_options(options);
      const profile::Profile p = advise::plan(model, config);
      check_width(reports::table(p, {}));
      check_width(reports::table(reports::Explanation{p, advise::explain_mode(model, config),
                                                      advise::module_costs(model, config)},
                                 {}));
      check_width(reports::table(advise::selective_trace(model, config), {}));
    }
  }
}

TEST_CASE("tables of long names and large figures fit 80 columns") {
  profile::Profile p = test::full_profile();
  p.model.name = std::string(300, 'x') + " " + std::string(300, 'y');
  p.device_name = std::string(200, 'z');
  p.memory.peak_op = std::string(90, 'o');
  p.memory.peak_allocated = std::int64_t{1} << 55;
  p.memory.largest[0].module = std::string(120, 'm');
  p.memory.largest[0].shape = "[1000000, 1000000, 1000000, 1000000]";
  p.warnings = {std::string(500, 'w')};
  p.budget->plan = std::string(200, 'p');
  check_width(reports::table(p, {}));
  profile::Diff d = profile::diff(p, test::full_profile());
  d.a_origin = "/" + std::string(300, 'd') + "/a.json";
  check_width(reports::table(d, {}));
}

TEST_CASE("a sweep's table: savings, ranking with its count of others, recommendation") {
  const advise::Sweep sweep = test::small_sweep({{"--batch", "2"}});
  REQUIRE(sweep.rows.size() > 5);
  const std::string text = reports::table(sweep, {.rows = 5});
  check_width(text);
  CHECK(text.find("Baseline") < text.find("configuration"));
  CHECK(contains(text, "… " + std::to_string(sweep.rows.size() - 5) + " more (--rows N)"));
  CHECK(text.find("more (--rows N)") < text.find("Recommendation: use"));
  CHECK_FALSE(contains(reports::table(sweep, {.rows = 100000}), "more (--rows N)"));
}

TEST_CASE("a difference of sweeps fits 80 columns and tells what each side lacks") {
  const advise::Sweep a = test::small_sweep({{"--batch", "2"}});
  advise::Sweep b = test::small_sweep({{"--batch", "8"}, {"--seq", "1024"}});
  const std::string text = reports::table(reports::diff(a, b), {.rows = 1000});
  check_width(text);
  CHECK(contains(text, "absent"));
  CHECK(contains(text, "seq"));
}

TEST_CASE(
    "a difference of plans: blocks that change alike are one row, the step's time has its delta") {
  profile::Diff d;
  d.modules = {{"loss", 3 << 20, 3 << 20},
               {"blocks.0", 8 << 20, 2 << 20},
               {"blocks.1", 8 << 20, 2 << 20},
               {"blocks.2", 8 << 20, 1 << 20}};
  d.a_step_seconds = 0.4;
  d.b_step_seconds = 0.5;
  const std::string text = reports::table(d, {});
  CHECK(contains(text, "2 blocks, each"));
  CHECK(contains(text, "blocks.2"));
  CHECK_FALSE(contains(text, "\nloss"));  // the same in both
  CHECK(contains(text, "estimated step: 400 ms, 500 ms (+25.0 %)"));
  d.modules.resize(1);
  CHECK(contains(reports::table(d, {}), "by module: no difference"));
}

TEST_CASE("colour only where it is asked for") {
  const profile::Profile p = test::full_profile();
  CHECK_FALSE(contains(reports::table(p, {.color = false}), "\033"));
  CHECK(contains(reports::table(p, {.color = true}), "\033[1m"));
}

TEST_CASE("a plan and a sweep of a ring say how many ranks share what") {
  const OptionList options{{"--framework", "megatron"},
                           {"--transformer-impl", "transformer_engine"},
                           {"--attn", "flash"},
                           {"--world", "8"},
                           {"--cp", "2"},
                           {"--shard", "zero1"},
                           {"--seq", "64"},
                           {"--optimizer-instances", "2"}};
  const model::ModelSpec model = model::load_model("tiny-llama");
  const std::string text = reports::table(advise::plan(model, resolve_options(options)), {});
  CHECK(contains(text, "cp 2 x dp 4: keys and values in a ring"));
  CHECK(contains(text, "shard zero1 over 4 in each of 2 instances"));
  CHECK(contains(unwrapped(text), "note: with --cp the step is that of the ring's last rank"));
  const std::string sweep = reports::table(test::small_sweep(options), {});
  CHECK(contains(sweep, "tp x cp x pp x dp"));
  CHECK(contains(sweep, "1 x 2 x 1 x 4"));
  CHECK(contains(sweep, " cp2 "));
}

TEST_CASE("a profile's table tells the peak, where it is, and its parts") {
  const std::string text = reports::table(test::full_profile(), {});
  CHECK(contains(text, "91.000"));  // 1 + 2 + … + 13 GiB
  CHECK(contains(text, "_log_softmax_backward_data of loss"));
  CHECK(contains(text, "optimizer_states"));
  CHECK(contains(text, "▁"));
  CHECK(contains(text, "█"));
  CHECK(contains(text, "note: routing is balanced"));
  CHECK(contains(text, "warning: a fallback"));
}

TEST_CASE("explain's table of module kinds names the order, and its JSON says the bytes again") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const StepConfig config = resolve_options({{"--batch", "2"}, {"--seq", "64"}});
  const reports::Explanation e{
      advise::plan(model, config), {}, advise::module_costs(model, config)};
  for (const std::string& text : {reports::table(e, {}), reports::markdown(e),
                                  reports::html({{{"", e}}, {}, "tiny-llama"})}) {
    CHECK(contains(unwrapped(text), "Checkpoint first: " + advise::checkpoint_order(e.modules)));
    for (const advise::ModuleCost& cost : e.modules.kinds) CHECK(contains(text, cost.kind));
  }
  const auto again = std::get<reports::Explanation>(
      reports::read_document(reports::json(e), "explain.json").value);
  REQUIRE(again.modules.kinds.size() == e.modules.kinds.size());
  CHECK(again.modules.kept_elsewhere_bytes == e.modules.kept_elsewhere_bytes);
  for (std::size_t i = 0; i < e.modules.kinds.size(); ++i) {
    CHECK(again.modules.kinds[i].kind == e.modules.kinds[i].kind);
    CHECK(again.modules.kinds[i].saved_bytes == e.modules.kinds[i].saved_bytes);
    CHECK(again.modules.kinds[i].recompute_seconds ==
          doctest::Approx(e.modules.kinds[i].recompute_seconds));
  }
}

TEST_CASE("advise's table says that the global batch stays, marks n/a and names explain") {
  const advise::Sweep sweep =
      test::small_sweep({{"--batch", "2"}, {"--seq", "64"}, {"--grad-accum", "2"}});
  const std::string text = reports::table(sweep, {false, sweep.rows.size()});
  CHECK(contains(text, "Global batch kept at 4 sequences, 4 per GPU"));
  CHECK(contains(text, "+ LC-CE (n/a)"));  // the Hugging Face Trainer has no such loss
  CHECK(contains(text, "ac-advisor explain"));
  const std::string page = reports::html({{{"", sweep}}, {}, "tiny-llama"});
  for (const char* part : {"+ LC-CE (n/a)", "\"unavailable\":true", "Global batch kept at 4"})
    CHECK(contains(page, part));
  std::istringstream lines(text);
  bool ranked = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("configuration")) ranked = true;
    if (line.starts_with("n/a: ")) ranked = false;  // the note below
    if (ranked && contains(line, " lc-ce ")) CHECK(contains(line, " n/a "));
  }
}

TEST_CASE("without UTF-8 a table is ASCII alone, as wide as with it") {
  const std::string text = "a ▁▂▃▄▅▆▇█ b × … µ é";
  const std::string ascii = reports::ascii_only(text);
  CHECK(ascii == "a _.:-=+*# b x ~ u ?");
  CHECK(reports::columns(ascii) == reports::columns(text));
  const std::string table = reports::table(
      advise::plan(model::load_model("tiny-llama"), resolve_options({})), {false, 15, 80, false});
  for (const char* block : {"▁", "▄", "█"}) CHECK_FALSE(contains(table, block));
  CHECK(contains(table, "(# = peak)"));
}

TEST_CASE("a measured sweep says in how many rows only the workspaces differ, and whose they are") {
  reports::Measurement same{"none", {}, {}}, scratch{"sqrt", {}, {}};
  same.predicted.memory.peak_allocated = same.measured.memory.peak_allocated = 1000;
  scratch.predicted.memory.peak_allocated = 990;
  scratch.measured.memory.peak_allocated = 1000;
  scratch.measured.memory.peak_op = "mm";
  CHECK(contains(
      unwrapped(reports::table(reports::Measurements{{same, scratch}, {}}, {})),
      "1 of 2 predicted peaks are the measured ones to the byte; worst 1.0000 %; without"));
  CHECK(contains(reports::markdown(reports::Measurements{{same, scratch}, {}}),
                 "without workspaces 2 of 2: at the peak mm takes scratch"));
  CHECK_FALSE(
      contains(reports::table(reports::Measurements{{same, same}, {}}, {}), "without work"));
}

TEST_CASE("what was solved marks at least and n/a, in words and in JSON") {
  advise::Largest l{advise::Sought::batch, {}, {}, "the answer"};
  l.base.runtime.framework = "hf";
  l.found = {{"full ce eager", 143, test::full_profile(), false, ""},
             {"full lc-ce eager", 150, test::full_profile(), true, "--loss lc-ce: its losses"}};
  const std::string text = reports::table(l, {});
  check_width(text);
  for (const char* part : {"143+", "full lc-ce eager (n/a)", "+: at least",
                           "n/a: not supported by hf (--loss lc-ce: its losses)"})
    CHECK(contains(text, part));
  CHECK(contains(reports::json(l), "\"largest_exact\": false"));
  CHECK(contains(reports::json(l), "\"unavailable\": \"--loss lc-ce: its losses\""));
}
