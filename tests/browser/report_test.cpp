// The HTML report as a reader uses it: in headless Chromium, with real keys and clicks.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <set>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/options.hpp"
#include "browser/chromium.hpp"
#include "browser/pages.hpp"
#include "profile/full_profile.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;
using nlohmann::json;

namespace {

void check_quiet(const test::Chromium& browser) {
  for (const std::string& problem : browser.problems()) FAIL_CHECK(problem);
}

/// The shown rows' figures in one column, from the top.
std::vector<double> column(test::Chromium& browser, int number) {
  return browser
      .evaluate(
          "[...document.querySelectorAll('.ranking tbody tr')].map((row) => Number(row.cells[" +
          std::to_string(number) + "].textContent.replaceAll(',', '')))")
      .get<std::vector<double>>();
}

}  // namespace

TEST_CASE("a report of 500 configurations is ready within a second, without a word of complaint") {
  const auto file = test::written("sweep.html", test::page_of(test::sweep_of_500()));
  CHECK(std::filesystem::file_size(file) < 1'000'000);
  test::Chromium browser;
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {  // the machine may be busy with something else
    browser.open(file);
    best = std::min(
        best,
        std::stod(browser.evaluate("document.documentElement.dataset.ready").get<std::string>()));
    check_quiet(browser);
  }
  MESSAGE("ready after " << best << " ms");
  CHECK(best < 1000);
  CHECK(browser.evaluate("document.querySelectorAll('.ranking tbody tr').length") == 500);
  CHECK(browser.evaluate("document.querySelector('.verdict').textContent.startsWith('Use ')") ==
        true);
  // Sorting is what a click costs.
  const double sorting = browser.evaluate(
      "(() => { const from = performance.now(); "
      "document.querySelectorAll('button.sort')[2].click();"
      " document.body.offsetHeight; return performance.now() - from; })()");
  CHECK(sorting < 1000);
}

TEST_CASE("a click on a column's head sorts by it, another one turns the order") {
  test::Chromium browser;
  browser.open(test::written("sorts.html", test::page_of(test::sweep_of_500())));
  browser.show_as(1800, 1000, "light");
  browser.click(".ranking thead th:nth-child(3) button");
  std::vector<double> peaks = column(browser, 2);
  CHECK(peaks.size() == 500);
  CHECK(std::is_sorted(peaks.begin(), peaks.end()));
  CHECK(browser.evaluate("document.querySelector('th[aria-sort]').textContent") == "Peak GiB");
  browser.click(".ranking thead th:nth-child(3) button");
  peaks = column(browser, 2);
  CHECK(std::is_sorted(peaks.rbegin(), peaks.rend()));
  CHECK(browser.evaluate("document.querySelector('th[aria-sort]').ariaSort") == "descending");
  check_quiet(browser);
}

TEST_CASE("filters and search leave the rows they name") {
  const advise::Sweep sweep = test::sweep_of_500();
  const auto count = [&](const auto& wanted) {
    return static_cast<std::size_t>(std::count_if(sweep.rows.begin(), sweep.rows.end(), wanted));
  };
  test::Chromium browser;
  browser.open(test::written("filters.html", test::page_of(sweep)));
  const auto shown = [&] {
    return browser.evaluate("document.querySelectorAll('.ranking tbody tr').length")
        .get<std::size_t>();
  };
  const auto choose = [&](const std::string& label, const std::string& value) {
    browser.evaluate(
        "(() => { const s = [...document.querySelectorAll('#filters label')].find((l) =>"
        " l.textContent.startsWith('" +
        label + "')).querySelector('select'); s.value = '" + value +
        "'; s.dispatchEvent(new Event('change')); })()");
  };
  choose("Checkpointing", "full");
  CHECK(shown() ==
        count([](const advise::Row& r) { return r.profile.config.memory.ac == AcMode::full; }));
  choose("Loss", "lc-ce");
  CHECK(shown() == count([](const advise::Row& r) {
          return r.profile.config.memory.ac == AcMode::full &&
                 r.profile.config.memory.loss == LossKind::lc_ce;
        }));
  choose("Checkpointing", "");
  choose("Loss", "");
  browser.click("#filters input[type=search]");
  browser.type("fsdp2 b16");
  CHECK(shown() == count([](const advise::Row& r) {
          return r.profile.config.layout.shard == Sharding::fsdp2 &&
                 r.profile.config.run.batch == 16;
        }));
  CHECK(browser.evaluate("document.getElementById('count').textContent").get<std::string>() ==
        std::to_string(shown()) + " of 500 configurations");
  browser.evaluate("document.querySelector('#filters input[type=search]').value = ''");
  browser.evaluate(
      "document.querySelector('#filters input[type=search]').dispatchEvent(new Event('input'))");
  browser.click("#filters .check:nth-last-child(1) input");
  CHECK(shown() == count([](const advise::Row& r) { return r.pareto; }));
  browser.click("#filters .check:nth-last-child(2) input");
  CHECK(shown() == count([](const advise::Row& r) { return r.pareto && r.fits; }));
  browser.click("#filters input[type=search]");
  browser.type("no such thing");
  CHECK(shown() == 0);
  check_quiet(browser);
}

TEST_CASE("a pipeline's schedule and the mesh of its ranks are drawn") {
  const reports::Page page = test::page_of("mistral-7b", {{"--batch", "1"},
                                                          {"--seq", "1024"},
                                                          {"--world", "32"},
                                                          {"--tp", "2"},
                                                          {"--pp", "4"},
                                                          {"--shard", "fsdp2"},
                                                          {"--grad-accum", "8"},
                                                          {"--no-hold-output", ""}});
  test::Chromium browser;
  browser.open(test::written("pipeline.html", page));
  browser.show_as(1400, 1000, "light");
  const auto count = [&](const std::string& selector) {
    return browser.evaluate("document.querySelectorAll('" + selector + "').length").get<int>();
  };
  CHECK(count("rect.slot.forward") == 4 * 8);
  CHECK(count("rect.slot.backward") == 4 * 8);
  // A rank's slots lie one after another, within the plot.
  CHECK(browser.evaluate(
            "(() => { const lines = {}; for (const r of document.querySelectorAll('rect.slot')) {"
            " const y = r.getAttribute('y'); (lines[y] = lines[y] || []).push("
            "[Number(r.getAttribute('x')), Number(r.getAttribute('width'))]); }"
            " return Object.keys(lines).length === 4 && Object.values(lines).every((line) =>"
            " line.every(([x, w], i) => i === 0 || x >= line[i - 1][0] + line[i - 1][1] - 0.01));"
            " })()") == true);
  CHECK(count("#selected-body svg rect title") == 32);
  const auto text =
      browser.evaluate("document.getElementById('selected-body').textContent").get<std::string>();
  CHECK(text.find("pipeline stages48across nodes") != std::string::npos);
  CHECK(text.find("see other data42in a node") != std::string::npos);
  CHECK(text.find("share a layer21in a node") != std::string::npos);
  CHECK(text.find("Ranks of the pipeline") != std::string::npos);
  CHECK(browser.evaluate("document.getElementById('tables').hidden") == true);
  check_quiet(browser);
}

TEST_CASE("a configuration is selected in the table, in the plot and by keys") {
  const advise::Sweep sweep = test::sweep_of_500();
  test::Chromium browser;
  browser.open(test::written("selects.html", test::page_of(sweep)));
  browser.show_as(1600, 1000, "light");
  const auto selected = [&] {
    return browser.evaluate("document.querySelector('.chosen-label strong').textContent")
        .get<std::string>();
  };
  CHECK(selected() == sweep.rows[0].label);
  CHECK(browser.evaluate("document.querySelectorAll('.timeline path.area').length").get<int>() >=
        5);
  browser.click(".ranking tbody tr:nth-child(3) td:nth-child(3)");
  CHECK(selected() == sweep.rows[2].label);
  CHECK(browser.evaluate("document.querySelector('.ranking tr.chosen').rowIndex") == 3);

  browser.evaluate("document.querySelector('.ranking tbody tr:nth-child(3) button').focus()");
  browser.press("ArrowDown");
  browser.press("Enter");
  CHECK(selected() == sweep.rows[3].label);

  // The last row has no timeline in the page: the command for it is there instead.
  browser.evaluate("document.querySelector('.ranking tbody tr:last-child button').click()");
  CHECK(selected() == sweep.rows.back().label);
  CHECK(browser.evaluate("document.querySelector('.timeline')").is_null());
  CHECK(browser.evaluate("document.querySelector('#selected .snippet code').textContent.startsWith("
                         "'ac-advisor plan llama-3.2-1b --batch ')") == true);

  const json point = browser.evaluate(
      "(() => { document.getElementById('pareto').scrollIntoView({block: 'center'});"
      " const b = document.querySelector('#pareto circle.pareto.fits').getBoundingClientRect();"
      " return [b.left + b.width / 2, b.top + b.height / 2]; })()");
  browser.move(point[0], point[1]);
  CHECK(browser.evaluate("document.getElementById('tip').hidden") == false);
  browser.click(point[0], point[1]);
  CHECK(browser.evaluate("data.rows.find((r) => r.label === document.querySelector("
                         "'.chosen-label strong').textContent).pareto") == true);

  browser.evaluate("document.querySelector('#pareto svg').focus()");
  browser.press("End");
  browser.press("Enter");
  const json last = browser.evaluate(
      "data.rows.filter((r) => r.ranked).sort((a, b) => a.perThousand - b.perThousand || a.peak - "
      "b.peak).at(-1).label");
  CHECK(selected() == last.get<std::string>());
  check_quiet(browser);
}

TEST_CASE("the report's front falls with time, whatever ranks share the model") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList hand{{"--framework", "torchtitan"},
                        {"--world", "16"},
                        {"--batch", "2"},
                        {"--seq", "8192"},
                        {"--tp", "2"},
                        {"--shard", "fsdp2"},
                        {"--kernels", "eager"},
                        {"--loss", "ce"}};
  const StepConfig base = resolve_options(hand);
  advise::Space space = advise::space_around(model, base, hand);
  space.largest_batches = 0;
  const advise::Sweep sweep = advise::sweep(model, base, space);
  test::Chromium browser;
  browser.open(test::written("layouts.html", test::page_of(sweep)));
  CHECK(browser.evaluate("data.rows.some((r) => r.options.pp > 1)") == true);
  CHECK(browser.evaluate("data.rows.filter((r) => r.pareto).sort((a, b) => a.perThousand - "
                         "b.perThousand).every((r, i, all) => i === 0 || r.peak < "
                         "all[i - 1].peak)") == true);
  check_quiet(browser);
}

TEST_CASE("the plan's page: every chart has its table, its keys and its words") {
  test::Chromium browser;
  browser.open(test::written("plan.html",
                             test::page_of("llama-3.2-1b", {{"--batch", "8"}, {"--ac", "full"}})));
  browser.show_as(1440, 1000, "light");
  CHECK(browser.evaluate(
            "[...document.querySelectorAll('svg[role=img]')].every((s) => s.ariaLabel)") == true);
  CHECK(browser.evaluate("[...document.querySelectorAll('button')].every((b) => b.ariaLabel || "
                         "b.textContent.trim())") == true);
  CHECK(browser.evaluate("[...document.querySelectorAll('table')].every((t) => t.caption && "
                         "t.querySelector('th[scope]'))") == true);
  CHECK(browser.evaluate("document.querySelectorAll('.behind tbody tr').length").get<int>() > 20);
  browser.evaluate("document.querySelector('.timeline svg').focus()");
  browser.press("Home");
  CHECK(browser.evaluate(
            "document.getElementById('said').textContent.startsWith('op 0, forward')") == true);
  CHECK(browser.evaluate(
            "document.getElementById('tip').textContent.includes('optimizer states')") == true);
  // The highest point drawn is the peak.
  const double highest = browser.evaluate("Math.max(...timelineOf(data.rows[0].detail).total)");
  const double peak = browser.evaluate("data.rows[0].peak");
  CHECK(highest == doctest::Approx(peak).epsilon(0.002));
  check_quiet(browser);
}

TEST_CASE("Tab alone reaches the theme, the filters, the table, the plot and the settings") {
  test::Chromium browser;
  browser.open(test::written("tab.html", test::page_of(test::sweep_of_500())));
  browser.show_as(1440, 1000, "light");
  std::set<std::string> reached;
  for (int i = 0; i < 90; ++i) {
    browser.press("Tab");
    reached.insert(browser
                       .evaluate("(() => { const e = document.activeElement; return e.id || "
                                 "e.closest('[id]')?.id || e.tagName; })()")
                       .get<std::string>());
  }
  for (const char* wanted : {"theme", "savings-table", "pareto", "filters", "ranking",
                             "selected-body", "comparison-body"}) {
    CAPTURE(wanted);
    CHECK(reached.count(wanted) == 1);
  }
}

TEST_CASE("copy buttons copy the setting and the command") {
  test::Chromium browser;
  browser.open(test::written("copies.html", test::page_of("llama-3.2-1b", {{"--batch", "8"}})));
  browser.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
  browser.click("[role=tabpanel] .copy");
  CHECK(browser.evaluate("window.copied") ==
        advise::export_setting("hf", model::load_model("llama-3.2-1b"),
                               resolve_options({{"--batch", "8"}}))
            .text);
  browser.click("#selected-body > .snippet .copy");
  CHECK(browser.evaluate("window.copied") == "ac-advisor plan llama-3.2-1b --batch 8 --seq 2048");
}

TEST_CASE("no width from 360 pixels to 4k scrolls sideways, in either theme, and paper is white") {
  test::Chromium browser;
  const std::filesystem::path folder = std::filesystem::path(test::binary_dir) / "browser";
  const auto sweep = test::written("widths.html", test::page_of(test::sweep_of_500()));
  const auto plan = test::written(
      "widths_plan.html", test::page_of("llama-3.2-1b", {{"--batch", "8"}, {"--ac", "full"}}));
  for (const auto& file : {sweep, plan}) {
    browser.open(file);
    for (const int width : {360, 768, 1440, 3840})
      for (const std::string scheme : {"light", "dark"}) {
        CAPTURE(width);
        browser.show_as(width, 1000, scheme);
        CHECK(browser.evaluate("document.documentElement.scrollWidth").get<int>() <= width);
        browser.screenshot(
            folder / (file.stem().string() + "_" + std::to_string(width) + "_" + scheme + ".png"));
        const std::string page =
            browser.evaluate("getComputedStyle(document.body).backgroundColor");
        CHECK(page == (scheme == "light" ? "rgb(244, 246, 248)" : "rgb(14, 17, 22)"));
      }
    browser.show_as(800, 1000, "dark", "print");
    CHECK(browser.evaluate("getComputedStyle(document.body).backgroundColor") ==
          "rgb(255, 255, 255)");
    CHECK(browser.evaluate("getComputedStyle(document.getElementById('theme')).display") == "none");
    browser.screenshot(folder / (file.stem().string() + "_print.png"));
    check_quiet(browser);
  }
}

TEST_CASE("the theme's button wins over the system's theme") {
  test::Chromium browser;
  browser.open(test::written("theme.html", test::page_of("tiny-llama", {})));
  browser.show_as(800, 600, "dark");
  browser.click("#theme");
  CHECK(browser.evaluate("getComputedStyle(document.body).backgroundColor") ==
        "rgb(244, 246, 248)");
  browser.click("#theme");
  browser.show_as(800, 600, "light");
  CHECK(browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 17, 22)");
}

TEST_CASE("text has a contrast of 4.5 to 1 or more in both themes") {
  test::Chromium browser;
  browser.open(test::written("contrast.html", test::page_of("tiny-llama", {})));
  for (const std::string scheme : {"light", "dark"}) {
    browser.show_as(1200, 800, scheme);
    for (const std::string color : {"--ink", "--muted", "--accent", "--good", "--bad"})
      for (const std::string ground : {"--card", "--page", "--soft"}) {
        CAPTURE(scheme);
        CAPTURE(color);
        CAPTURE(ground);
        // WCAG 2.2: (L1 + 0.05) / (L2 + 0.05) of the relative luminances.
        const double contrast = browser.evaluate(
            "(() => { const lum = (name) => { const e = document.createElement('i'); e.style.color "
            "= `var(${name})`;"
            " document.body.append(e); const [r, g, b] = "
            "getComputedStyle(e).color.match(/[\\d.]+/g).map(Number)"
            ".map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** "
            "2.4); e.remove();"
            " return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
            " const [a, b] = [lum('" +
            color + "'), lum('" + ground +
            "')].sort((x, y) => y - x);"
            " return (a + 0.05) / (b + 0.05); })()");
        CHECK(contrast >= 4.5);
      }
  }
}

TEST_CASE("names are text, never markup") {
  const std::string hostile =
      "</script><img src=x "
      "onerror=\"window.hacked=1\"><!--{{data}}<script>window.hacked=2</script>";
  profile::Profile p = test::full_profile();
  p.model.name = p.device_name = p.memory.peak_module = p.tool_version = hostile;
  p.memory.largest[0].module = p.warnings[0] = p.assumptions[0] = p.budget->plan = hostile;
  p.memory.at_peak_by_module = {{hostile, 1}};
  p.config.device.gpu = p.config.runtime.framework = hostile;
  advise::Sweep sweep;
  sweep.model.name = hostile;
  sweep.rows.push_back({p, hostile, true, "", 1, true, 4, true, hostile});
  sweep.rows.push_back({p, hostile + "2", false, hostile, 0, false, 0, false, hostile});
  sweep.savings.push_back({hostile, p.config, 1, 0, 0.0, 1.0, hostile});
  sweep.recommendation = hostile;
  const profile::Diff diff = profile::diff(p, test::full_profile());
  test::Chromium browser;
  for (const reports::Page& page :
       {reports::Page{{{hostile, p}, {hostile, p}}, {{hostile, p, {}}}, hostile},
        reports::Page{{{hostile, sweep}}, {}, hostile},
        reports::Page{{{hostile, sweep}, {hostile, sweep}}, {}, ""},
        reports::Page{{{hostile, diff}}, {}, ""},
        reports::Page{{{hostile, reports::Explanation{p, {hostile}}}}, {}, ""},
        reports::Page{
            {{hostile, reports::Trace{{hostile, hostile, "SAVE", hostile, 1, 1.0, 1}}}}, {}, ""}}) {
    browser.open(test::written("hostile.html", page));
    check_quiet(browser);
    CHECK(browser.evaluate("window.hacked").is_null());
    CHECK(browser.evaluate("document.querySelectorAll('img').length") == 0);
    CHECK(browser.evaluate("document.querySelectorAll('script').length") == 2);
    CHECK(browser.evaluate("document.documentElement.dataset.ready !== undefined") == true);
    CHECK(browser.evaluate("document.querySelector('h1').textContent.includes('<img src=x')") ==
          true);
  }
}

TEST_CASE("what is live over a step has every category that a plan has") {
  test::Chromium browser;
  browser.open(test::written("categories.html", {{{"p.json", test::full_profile()}}, {}, ""}));
  CHECK(browser.evaluate("data.categories.filter((_, c) => !stackOrder().includes(c))") ==
        json{"workspace", "unknown"});
  check_quiet(browser);
}

TEST_CASE("measured beside predicted is told as that") {
  profile::Profile predicted = test::full_profile(), measured = predicted;
  measured.source = "measured";
  measured.time.basis = profile::TimeBasis::measured;
  measured.memory.peak_allocated += std::int64_t{1} << 30;
  test::Chromium browser;
  browser.open(
      test::written("measured.html", {{{"p.json", predicted}, {"m.json", measured}}, {}, ""}));
  CHECK(browser.evaluate("document.getElementById('comparison-title').textContent") ==
        "Predicted against measured");
  // 1 GiB more is measured than the predicted n: -1/(n + 1).
  const double n = static_cast<double>(predicted.memory.peak_allocated) / (std::int64_t{1} << 30);
  const std::string told = fmt::format("{:.3f} GiB ({:+.2f} %)", n, -100 / (n + 1));
  CAPTURE(told);
  CHECK(browser.evaluate("document.querySelector('.verdict').textContent.includes('" + told +
                         "')") == true);
  check_quiet(browser);
}

TEST_CASE("odd but valid results make a page too") {
  profile::Profile zero;
  profile::Profile strange = test::full_profile();
  strange.time.step = strange.time.mfu = std::numeric_limits<double>::quiet_NaN();
  strange.time.by_phase.fill(std::numeric_limits<double>::infinity());
  strange.kernels.bytes.fill(std::numeric_limits<double>::quiet_NaN());
  profile::Profile alone = test::full_profile();
  alone.memory.timeline = {{5, 1, 7}};
  advise::Sweep nothing_fits;
  nothing_fits.rows.push_back({zero, "a", false, "", 0, true, 0, false, ""});
  nothing_fits.rows.push_back({zero, "b", false, "", 0, true, 0, false, ""});
  nothing_fits.recommended = 2;
  nothing_fits.recommendation = "nothing fits";
  test::Chromium browser;
  for (const reports::Page& page :
       {reports::Page{{{"", zero}}, {}, ""}, reports::Page{{{"", alone}}, {}, ""},
        reports::Page{{{"a", strange}, {"b", alone}}, {}, ""},
        reports::Page{{{"", nothing_fits}}, {}, ""}, reports::Page{{{"", advise::Sweep{}}}, {}, ""},
        reports::Page{{{"", reports::Trace{}}}, {}, ""}}) {
    browser.open(test::written("odd.html", page));
    check_quiet(browser);
    CHECK(browser.evaluate("document.documentElement.dataset.ready !== undefined") == true);
    CHECK(browser.evaluate(
              "/NaN|undefined|Infinity|object Object/.test(document.body.innerText)") == false);
  }
}
