// Names come from folders and files that anybody may have written.
#include <doctest/doctest.h>

#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "profile/full_profile.hpp"
#include "reports/grid.hpp"

using namespace ac_advisor;

namespace {

const char* const hostile =
    "a|b`c<img src=x onerror=alert(1)>\n\033[2J@user\"q\",=1+1\r\x9b\xff\u202e*";

std::size_t count(const std::string& text, char c) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}

/// Fields of RFC 4180 text, by record.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& field = records.back().back();
    if (quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field += '"';
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == ',') {
      records.back().emplace_back();
    } else if (!quoted && text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') {
      records.push_back({""});
      ++i;
    } else {
      field += text[i];
    }
  }
  CHECK_FALSE(quoted);
  records.pop_back();  // the last record ends with a line break too
  return records;
}

}  // namespace

TEST_CASE("a terminal is shown no control character of a name") {
  CHECK(reports::printable("plain é 模型") == "plain é 模型");
  CHECK(reports::printable("a\nb\tc\x1b[2J\x7f") == "a b c?[2J?");
  CHECK(reports::printable("\xff\xc0\xaf\xed\xa0\x80\xc2") ==
        "???????");  // not UTF-8, byte by byte
  CHECK(reports::printable("\u202egpj\u200b\u0085") == "?gpj??");
  profile::Profile p = test::full_profile();
  p.model.name = p.device_name = p.memory.peak_module = hostile;
  p.memory.largest[0].module = p.warnings[0] = p.assumptions[0] = hostile;
  p.memory.at_peak_by_module = {{hostile, 1}};
  profile::Diff diff = profile::diff(p, test::full_profile());
  diff.a_origin = hostile;
  for (const std::string& text : {reports::table(p, {}), reports::table(diff, {}),
                                  reports::table(reports::Explanation{p, {hostile}}, {})}) {
    CHECK(count(text, '\033') == 0);
    CHECK(count(text, '\r') == 0);
    CHECK(text.find("\u202e") == std::string::npos);
    CHECK(text.find('\x9b') == std::string::npos);
  }
}

TEST_CASE("Markdown cells hold no markup of a name") {
  CHECK(reports::escape_markdown("a|b`c") == "a\\|b\\`c");
  CHECK(reports::escape_markdown("<b>") == "\\<b\\>");
  CHECK(reports::escape_markdown("[x](y)\n# z") == "\\[x\\](y) \\# z");
  CHECK(reports::escape_markdown("&lt;") == "&amp;lt;");
  CHECK(reports::escape_markdown("@user") == "@<!-- -->user");
  profile::Profile p = test::full_profile();
  p.model.name = p.memory.largest[0].module = p.warnings[0] = hostile;
  for (const std::string& text :
       {reports::markdown(p), reports::markdown(reports::Explanation{p, {hostile}}),
        reports::markdown(profile::diff(p, test::full_profile()))}) {
    CHECK(text.find("<img") == text.find("\\<img") + (text.find("\\<img") < text.size() ? 1 : 0));
    CHECK(count(text, '\033') == 0);
  }
}

TEST_CASE("CSV is quoted as RFC 4180 has it") {
  reports::Grid grid({"name", "n"});
  grid.row({"plain", "1"});
  grid.row({"with, comma", "-2"});
  grid.row({"with \"quotes\"", "3.5e-3"});
  grid.row({"two\nlines", "4"});
  CHECK(grid.csv() ==
        "name,n\r\nplain,1\r\n\"with, comma\",-2\r\n\"with \"\"quotes\"\"\",3.5e-3\r\n"
        "\"two\nlines\",4\r\n");
}

TEST_CASE("no CSV cell is a formula of a spreadsheet") {
  reports::Grid grid({"name"});
  for (const char* text : {"=1+1", "@sum", "+cmd", "-cmd"}) grid.row({text});
  CHECK(grid.csv() == "name\r\n'=1+1\r\n'@sum\r\n'+cmd\r\n'-cmd\r\n");
}

TEST_CASE("CSV records all have as many fields as the head, whatever the names") {
  profile::Profile p = test::full_profile();
  p.model.name = p.memory.largest[0].module = hostile;
  advise::Sweep sweep;
  sweep.rows.push_back({p, hostile, true, "", 1, true, 4, true, hostile});
  sweep.rows.push_back({p, hostile, true, hostile, 0, false, 0, false, hostile});
  for (const std::string& text :
       {reports::csv(p), reports::csv(sweep), reports::csv(profile::diff(p, test::full_profile())),
        reports::csv(reports::Explanation{p, {}}), reports::csv(reports::diff(sweep, {})),
        reports::csv(reports::Trace{{hostile, hostile, "SAVE", hostile, 1, 1.0, 1}})}) {
    const auto records = parse_csv(text);
    REQUIRE(records.size() >= 2);
    for (const auto& record : records) CHECK(record.size() == records.front().size());
  }
  CHECK(parse_csv(reports::csv(p))[1][0] == hostile);
}

TEST_CASE("HTML holds no tag and no control character of a name, in its text and in its data") {
  profile::Profile p = test::full_profile();
  p.model.name = p.device_name = p.memory.peak_module = hostile;
  p.memory.largest[0].module = p.warnings[0] = p.assumptions[0] = hostile;
  p.memory.at_peak_by_module = {{hostile, 1}};
  advise::Sweep sweep;
  sweep.model.name = sweep.recommendation = hostile;
  sweep.rows.push_back({p, hostile, true, "", 1, true, 4, true, hostile});
  sweep.savings.push_back({hostile, p.config, 1, 0, 0.0, 1.0, hostile});
  profile::Diff diff = profile::diff(p, test::full_profile());
  for (const reports::Page& page :
       {reports::Page{{{hostile, p}}, {{hostile, p, {}}}, hostile},
        reports::Page{{{hostile, sweep}, {hostile, sweep}}, {}, hostile},
        reports::Page{{{hostile, diff}}, {}, ""},
        reports::Page{{{hostile, reports::Explanation{p, {hostile}}}}, {}, ""},
        reports::Page{
            {{hostile, reports::Trace{{hostile, hostile, "SAVE", hostile, 1, 1.0, 1}}}}, {}, ""}}) {
    const std::string text = reports::html(page);
    CHECK(text.find("<img") == std::string::npos);
    CHECK(count(text, '\033') == 0);
    CHECK(count(text, '\x9b') == 0);
    CHECK(count(text, '\xff') == 0);
  }
}
