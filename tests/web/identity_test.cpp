// The page's core is the program: the same bytes of JSON, the same words of refusal.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "browser/chromium.hpp"
#include "test_paths.hpp"
#include "web/steps.hpp"

using namespace ac_advisor;
using nlohmann::json;

namespace {

void check_identical(const std::vector<test::Expected>& expected, const json& answers) {
  const test::Agreement found = test::agreement(expected, answers);
  MESSAGE(found.same << " results and " << found.refusals << " refusals are identical");
  INFO(found.first_difference);
  CHECK(found.different == 0);
  CHECK(found.same >= 200);
  CHECK(found.refusals >= 20);
}

}  // namespace

TEST_CASE("in node, the page's core prints the program's JSON to the byte") {
  const std::filesystem::path web = test::web_folder();
  if (web.empty()) return;
  const std::vector<test::Expected> expected = test::expected_answers();
  json questions = json::array();
  for (const test::Expected& e : expected) questions.push_back(e.question);
  const std::filesystem::path folder = std::filesystem::path(test::binary_dir) / "web";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "questions.json") << questions.dump();
  const std::string command = "node '" + std::string(test::source_dir) +
                              "/tests/web/ask_core.js' '" + web.string() + "' '" +
                              (folder / "questions.json").string() + "' '" +
                              (folder / "answers.json").string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  check_identical(expected, json::parse(std::ifstream(folder / "answers.json")));
}

TEST_CASE("in Chromium, the page's core prints the program's JSON to the byte") {
  const std::filesystem::path web = test::web_folder();
  if (web.empty()) return;
  const std::vector<test::Expected> expected = test::expected_answers();
  test::Chromium browser;
  browser.open(web / "ac-advisor.html");
  browser.evaluate(
      "window.asked = (() => { const worker = newWorker(); const waiting = new Map();"
      " worker.onmessage = ({data}) => { if (data.done === undefined) {"
      " waiting.get(data.id)(data.answer ?? {error: data.failed}); waiting.delete(data.id); } };"
      " let id = 0;"
      " return (questions) => Promise.all(questions.map((question) => new Promise((done) => {"
      " waiting.set(++id, done); worker.postMessage({id, question}); }))); })(); null");
  json answers = json::array();
  for (std::size_t from = 0; from < expected.size(); from += 32) {
    json some = json::array();
    for (std::size_t i = from; i < std::min(expected.size(), from + 32); ++i)
      some.push_back(expected[i].question);
    for (json& answer : browser.evaluate("asked(" + some.dump() + ")"))
      answers.push_back(std::move(answer));
  }
  check_identical(expected, answers);
  for (const std::string& problem : browser.problems()) FAIL_CHECK(problem);
}
