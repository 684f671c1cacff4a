// The page of a memory snapshot as a reader uses it: in headless Chromium, with real keys.
#include <doctest/doctest.h>

#include <fstream>

#include "ac_advisor/reports/snapshot.hpp"
#include "ac_advisor/snapshot/write_plan.hpp"
#include "browser/chromium.hpp"
#include "snapshot/fixtures.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;

namespace {

std::filesystem::path page_of(const std::string& name, const snapshot::Analysis& analysis) {
  const auto folder = std::filesystem::path(test::binary_dir) / "browser";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << reports::html(analysis);
  return folder / name;
}

void check_quiet(const test::Chromium& browser) {
  for (const std::string& problem : browser.problems()) FAIL_CHECK(problem);
}

std::string shown(test::Chromium& browser, const std::string& selector) {
  return browser.evaluate("document.querySelector('" + selector + "').textContent");
}

}  // namespace

TEST_CASE("a snapshot's page tells its peak, its history and what is live there") {
  test::Chromium browser;
  browser.open(page_of("snapshot.html", test::analyzed("train.pickle.gz")));
  check_quiet(browser);
  CHECK(shown(browser, "#verdict").find("93,530,624 B allocated at the peak") != std::string::npos);
  CHECK(browser.evaluate("document.querySelectorAll('#history-plot svg').length") == 1);
  CHECK(shown(browser, "#moment-body").find("allocated, ") != std::string::npos);
  // A column a figure, a row a live allocation.
  CHECK(browser.evaluate("document.querySelectorAll('#moment-body tbody tr').length").get<int>() >
        20);
}

TEST_CASE("a snapshot's history has every category that it may have, also what is unknown") {
  test::Chromium browser;
  browser.open(page_of("snapshot_unknown.html", test::analyzed("streams.pickle.gz")));
  CHECK(shown(browser, "#history-rest .legend").find("unknown") != std::string::npos);
  CHECK(browser.evaluate("data.categories.filter((_, c) => !historyOrder().includes(c))") ==
        nlohmann::json{"waiting_worker"});
  // The curve's highest point is the peak.
  CHECK(browser.evaluate("Math.abs(Math.max(...historyOf(data.timeline).total) - data.peak) <= "
                         "data.categories.length * data.timeline.unit") == true);
  check_quiet(browser);
}

TEST_CASE("a snapshot's history is zoomed and read by keys alone") {
  test::Chromium browser;
  browser.open(page_of("snapshot_keys.html", test::analyzed("train.pickle.gz")));
  browser.evaluate("document.querySelector('#history-plot [tabindex]').focus()");
  const auto axis = [&] { return shown(browser, "#history-plot"); };
  const std::string before = axis();
  browser.press("+");
  const std::string zoomed = axis();
  CHECK(zoomed != before);
  browser.press("-");
  CHECK(axis() == before);
  // The focus stays in the chart that was drawn anew.
  const std::string told = shown(browser, "#moment-body");
  browser.press("Home");
  browser.press("Enter");
  CHECK(shown(browser, "#moment-body") != told);
  CHECK(shown(browser, "#said").find("Live at event") != std::string::npos);
  check_quiet(browser);
}

TEST_CASE("a snapshot's page scrolls sideways at no width, in either theme") {
  test::Chromium browser;
  browser.open(page_of("snapshot_widths.html", test::analyzed("train.pickle.gz")));
  for (const int width : {360, 1440, 3840})
    for (const std::string scheme : {"light", "dark"}) {
      CAPTURE(width);
      browser.show_as(width, 1000, scheme);
      CHECK(browser.evaluate("document.documentElement.scrollWidth").get<int>() <= width);
      browser.screenshot(std::filesystem::path(test::binary_dir) / "browser" /
                         ("snapshot_" + std::to_string(width) + "_" + scheme + ".png"));
    }
  check_quiet(browser);
}

TEST_CASE("stacks are text on a snapshot's page, never markup") {
  const std::string hostile = "</script><img src=x onerror=\"window.hacked=1\">";
  snapshot::Analysis a = test::analyzed("train.pickle.gz");
  a.origin = a.bars.at(0).where = hostile;
  for (snapshot::LiveBlock& b : a.live) b.where = hostile;
  a.notes.push_back(hostile);
  test::Chromium browser;
  browser.open(page_of("snapshot_hostile.html", a));
  check_quiet(browser);
  CHECK(browser.evaluate("window.hacked").is_null());
  CHECK(browser.evaluate("document.querySelectorAll('img').length") == 0);
}

TEST_CASE("a long history is drawn from what was aggregated: the page stays small and quick") {
  // 126 blocks and 16 micro-batches: some hundred thousand events.
  const StepConfig config = resolve_options(
      {{"--gpu", "h100-80gb"}, {"--grad-accum", "16"}, {"--ac", "full"}, {"--batch", "1"}});
  const std::string bytes = snapshot::plan_snapshot(model::load_model("llama-3.1-405b"), config);
  const snapshot::Analysis a = snapshot::analyze(snapshot::read_bytes(bytes, "plan"));
  const auto file = page_of("snapshot_long.html", a);
  CHECK(std::filesystem::file_size(file) < 2'000'000);
  test::Chromium browser;
  browser.open(file);
  check_quiet(browser);
  const double zooming = browser.evaluate(
      "(() => { const from = performance.now(); for (let i = 0; i < 10; ++i) "
      "document.querySelector('#history-options button[aria-label=\"Zoom in\"]').click();"
      " document.body.offsetHeight; return (performance.now() - from) / 10; })()");
  MESSAGE("a zoom takes " << zooming << " ms");
  CHECK(browser.evaluate("document.querySelectorAll('#history-plot svg *').length").get<int>() <
        20000);
}
