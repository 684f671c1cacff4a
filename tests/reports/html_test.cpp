// The HTML report as text; what a browser makes of it is tested in tests/browser/.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/profile/diff.hpp"
#include "ac_advisor/reports/page.hpp"
#include "profile/full_profile.hpp"
#include "reports/command_line.hpp"
#include "reports/html_data.hpp"
#include "reports/small_sweep.hpp"
#include "reports/verdict.hpp"

using namespace ac_advisor;
using nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// The data as a browser reads it.
json data_of(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = html.find(open) + open.size();
  return json::parse(html.substr(from, html.find("</script>", from) - from));
}

reports::Page page_of(const advise::Sweep& sweep) {
  return {{{"", sweep}}, reports::details(sweep), "tiny-llama"};
}

constexpr std::int64_t gib = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("the page asks for nothing from anywhere") {
  const std::string html = reports::html(page_of(test::small_sweep({{"--batch", "2"}})));
  for (const char* part : {"http://", "https://", "src=", "@import", "url(", "<link", "import("}) {
    CAPTURE(part);
    const bool svg_name = std::string(part) == "http://";  // the name of SVG's elements, no address
    CHECK(count(html, part) == (svg_name ? count(html, "http://www.w3.org/2000/svg") : 0));
  }
  CHECK(contains(html, "default-src 'none'"));
}

TEST_CASE("the page of the largest that fits has its answer, its settings and their largest") {
  const advise::Sweep sweep = test::small_sweep({{"--batch", "2"}});
  advise::Largest largest{advise::Sought::batch, sweep.rows[0].profile.config, {}, "14 <fit>"};
  largest.found.push_back({"full", 14, sweep.rows[0].profile, false, ""});
  largest.found.push_back({"none", 0, sweep.rows[1].profile, true, "not in <it>"});
  const std::string html = reports::html({{{"", largest}}, {}, "tiny-llama"});
  CHECK(contains(html, "14 &lt;fit&gt;"));
  const json data = data_of(html);
  REQUIRE(data["rows"].size() == 2);
  CHECK(data["rows"][0]["label"] == "full");
  CHECK(data["rows"][0]["mostBatch"] == 14);
  CHECK(data["rows"][0]["mostAtLeast"] == true);
  CHECK(data["rows"][1]["unavailable"] == true);
  CHECK_FALSE(data["rows"][1].contains("mostBatch"));
  const json& table = data["tables"].back();
  CHECK(table["title"] == "The largest that fits");
  CHECK(table["rows"][0][1] == "14+");
  CHECK(table["rows"][1][1] == "none");
  CHECK(data["model"] == "tiny-llama");

  largest.sought = advise::Sought::model;
  const json models = data_of(reports::html({{{"", largest}}, {}, ""}));
  CHECK(models["files"].size() == 2);
  CHECK_FALSE(models["rows"][0].contains("mostBatch"));
}

TEST_CASE("a page's data are its sweep's") {
  const advise::Sweep sweep = test::small_sweep({{"--batch", "2"}, {"--world", "2"}});
  const json data = data_of(reports::html(page_of(sweep)));
  CHECK(data["recommended"] == 0);
  std::size_t ranked = 0;
  for (const json& row : data["rows"]) {
    if (!row.contains("ranked")) continue;
    const advise::Row& own = sweep.rows[ranked++];
    CHECK(row["label"] == own.label);
    CHECK(row["peak"] == own.profile.memory.peak_allocated);
    CHECK(row["step"].get<double>() == doctest::Approx(own.profile.time.step).epsilon(1e-5));
    CHECK(row.value("rank", 0) == own.rank);
    CHECK(row["atPeak"] == own.profile.memory.at_peak);
  }
  CHECK(ranked == sweep.rows.size());
  REQUIRE(data["savings"].size() == sweep.savings.size());
  CHECK(data["savings"][1]["peak"] == sweep.savings[1].peak_bytes);
  // Each row of the savings table is a configuration that the page shows whole.
  for (const json& saving : data["savings"]) {
    const json& row = data["rows"][saving["row"].get<std::size_t>()];
    CHECK(row["peak"] == saving["peak"]);
    CHECK(row.contains("detail"));
  }
}

TEST_CASE("a page of 500 configurations is below 1 MB") {
  advise::Sweep sweep = test::small_sweep({{"--batch", "2"}, {"--world", "8"}});
  REQUIRE(sweep.rows.size() >= 100);
  while (sweep.rows.size() < 500) sweep.rows.push_back(sweep.rows[sweep.rows.size() % 100]);
  sweep.rows.resize(500);
  const std::string html = reports::html(page_of(sweep));
  CHECK(html.size() < 1'000'000);
  CHECK(data_of(html)["leftOut"] == 0);
}

TEST_CASE("of very many configurations a page shows a thousand and tells of the others") {
  advise::Sweep sweep = test::small_sweep();
  const advise::Row last = sweep.rows.back();
  sweep.rows.resize(20'000, last);
  const std::string html = reports::html({{{"", sweep}}, {}, ""});
  CHECK(html.size() < 2'000'000);
  CHECK(data_of(html)["leftOut"] == 19'000);
}

TEST_CASE("the timeline by category has the profile's peak, and its parts at the peak") {
  const model::ModelSpec model = model::load_model("qwen3-0.6b");
  for (const OptionList& options :
       {OptionList{{"--batch", "2"}}, OptionList{{"--batch", "2"}, {"--ac", "full"}},
        OptionList{{"--batch", "2"}, {"--ac", "selective"}, {"--world", "4"}, {"--loss", "lc-ce"}},
        OptionList{{"--batch", "2"}, {"--world", "4"}, {"--shard", "ddp"}, {"--kernels", "fused"}},
        OptionList{{"--batch", "2"}, {"--gpu", "cpu"}, {"--grad-accum", "3"}},
        OptionList{{"--framework", "verl"},  // with what a critic keeps
                   {"--task", "ppo"},
                   {"--batch", "2"},
                   {"--seq", "512"},
                   {"--prompt", "128"},
                   {"--world", "4"}}}) {
    const StepConfig config = resolve_options(options);
    const profile::Profile p = advise::plan(model, config);
    const std::vector<advise::CategoryPoint> points = advise::category_timeline(model, config);
    const auto high =
        std::max_element(points.begin(), points.end(),
                         [](const auto& a, const auto& b) { return a.total() < b.total(); });
    REQUIRE(high != points.end());
    CHECK(high->total() == p.memory.peak_allocated);
    CHECK(high->op == p.memory.peak_step);
    CHECK(high->bytes == p.memory.at_peak);
    CHECK(points.size() <= 200);
    CHECK(std::is_sorted(points.begin(), points.end(),
                         [](const auto& a, const auto& b) { return a.op < b.op; }));
  }
}

TEST_CASE("the options of a configuration give that configuration") {
  for (const OptionList& base :
       {OptionList{{"--batch", "4"}}, OptionList{{"--batch", "4"}, {"--world", "8"}},
        OptionList{{"--framework", "automodel"}, {"--batch", "4"}, {"--world", "8"}},
        OptionList{{"--framework", "torchtitan"},
                   {"--batch", "4"},
                   {"--world", "8"},
                   {"--grad-accum", "2"}},
        OptionList{
            {"--framework", "megatron"}, {"--batch", "4"}, {"--world", "8"}, {"--dropout", "0.1"}},
        OptionList{
            {"--framework", "deepspeed"}, {"--batch", "4"}, {"--world", "8"}, {"--shard", "zero2"}},
        OptionList{{"--framework", "liger"}, {"--batch", "4"}, {"--param-dtype", "fp32"}}})
    for (const advise::Row& row : test::small_sweep(base).rows) {
      CAPTURE(row.label);
      const auto options = reports::options_of(row.profile.config);
      REQUIRE(options);
      CHECK(profile::diff_fields(resolve_options(*options), row.profile.config).empty());
    }
  CHECK(reports::command_line(*reports::options_of(resolve_options({{"--batch", "8"}}))) ==
        "--batch 8 --seq 2048");
  StepConfig never = resolve_options({});
  never.runtime.under_dispatch_mode = true;
  CHECK_FALSE(reports::options_of(never));
  never = resolve_options({});
  never.layout.shard = Sharding::fsdp2;  // over one rank
  CHECK_FALSE(reports::options_of(never));
}

TEST_CASE("a word of a command is one word to a shell") {
  CHECK(reports::shell_word("llama-3.2-1b") == "llama-3.2-1b");
  CHECK(reports::shell_word("a b") == "'a b'");
  CHECK(reports::shell_word("$(rm -r x)") == "'$(rm -r x)'");
  CHECK(reports::shell_word("it's") == "'it'\\''s'");
  CHECK(reports::shell_word("") == "''");
}

TEST_CASE("the verdict says what to use, what it saves and costs, and that it fits") {
  profile::Profile p = test::full_profile();
  p.config = {};
  p.config.run.batch = 8;
  p.memory.peak_allocated = 60 * gib;
  p.time.step = 0.25;
  advise::Sweep sweep;
  sweep.rows.push_back({p, "full lc-ce fused b8", true, "", 1, true, 9, true, "fastest that fits"});
  sweep.rows.push_back({p, "none ce eager b8", false, "", 0, false, 0, false, "too large"});
  sweep.rows[0].profile.config.memory.ac = AcMode::full;
  sweep.rows[0].profile.memory.peak_allocated = 15 * gib;
  sweep.rows[0].profile.time.step = 0.3;
  const std::string text = reports::verdict(sweep);
  CHECK(contains(text, "Use full lc-ce fused b8: its peak is 15.000 GiB"));
  CHECK(contains(text, "300 ms per step"));
  CHECK(contains(text, "it fits: 100.000 of 140.000 GiB"));
  CHECK(contains(text, "75.0 % less memory"));  // 15 of 60
  CHECK(contains(text, "20.0 % more time"));    // 0.3 over 0.25
  // Neither another split of the layers nor other micro-batches are compared with.
  sweep.rows[1].profile.config.layout.tp = 2;
  CHECK_FALSE(contains(reports::verdict(sweep), "nothing saved"));
  sweep.rows[1].profile.config.layout.tp = 1;
  sweep.rows[1].profile.config.run.grad_accum = 2;
  CHECK_FALSE(contains(reports::verdict(sweep), "nothing saved"));
  sweep.recommended = sweep.rows.size();
  sweep.recommendation = "nothing fits; the nearest needs 3 GiB more";
  CHECK(contains(reports::verdict(sweep), "Nothing fits"));
}

TEST_CASE(
    "the verdict on two profiles counts from A, that on a measurement from what was measured") {
  profile::Profile a = test::full_profile(), b = a;
  a.memory.peak_allocated = 80 * gib;
  b.memory.peak_allocated = 60 * gib;
  a.time.step = 0.2;
  b.time.step = 0.25;
  const std::string text = reports::verdict(a, b);
  CHECK(contains(text, "25.0 % less memory"));  // 60 of 80
  CHECK(contains(text, "25.0 % more time"));    // 0.25 over 0.2
  b.source = "measured";
  const std::string measured = reports::verdict(a, b);
  CHECK(contains(measured, "Measured: 60.000 GiB"));
  CHECK(contains(measured, "+33.33 %"));  // 80 predicted over 60
  CHECK(contains(measured, "-20.0 %"));   // 0.2 over 0.25
}

TEST_CASE("settings to copy are those of export, refusals with their reason") {
  const StepConfig config = resolve_options({{"--batch", "2"}, {"--loss", "lc-ce"}});
  const model::ModelSpec model = model::load_model("tiny-llama");
  const reports::Detail detail = reports::detail(model, config, "x");
  const json row = data_of(reports::html({{{"", detail.profile}}, {detail}, "x"}))["rows"][0];
  std::size_t texts = 0, refused = 0;
  for (const json& setting : row["settings"]) {
    if (setting.contains("refused")) {
      ++refused;
      continue;
    }
    ++texts;
    CHECK(setting["text"] == advise::export_setting(setting["target"], model, config).text);
  }
  CHECK(texts + refused == advise::export_targets().size());
  CHECK(refused >= 1);  // transformers has no lc-ce
}

TEST_CASE("no name leaves the place that it is shown in") {
  profile::Profile p = test::full_profile();
  p.model.name = "</script><img src=x onerror=alert(1)>{{data}}&quot;";
  p.config.device.gpu = "$(reboot)";
  const std::string html = reports::html({{{"<b>.json", p}}, {}, "a b"});
  CHECK(count(html, "<img") == 0);
  CHECK(count(html, "</script>") == 2);
  CHECK(contains(html, "&lt;img src=x"));
  const json data = data_of(html);
  CHECK(data["files"][0]["model"] == p.model.name);
  CHECK(data["model"] == "'a b'");
}

TEST_CASE("a Markdown comment stays below 64 KB whatever the names") {
  profile::Profile p = test::full_profile();
  p.model.name = std::string(200'000, 'x');
  p.warnings.assign(5000, "a warning that is one of many");
  const std::string cut = reports::markdown(p);
  CHECK(cut.size() < 65'536);
  CHECK(contains(cut, "Cut here"));
  advise::Sweep sweep = test::small_sweep({{"--world", "8"}});
  CHECK(reports::markdown(sweep).size() < 65'536);
  CHECK_FALSE(contains(reports::markdown(sweep), "Cut here"));
  CHECK(contains(reports::markdown(sweep), "others"));
}
