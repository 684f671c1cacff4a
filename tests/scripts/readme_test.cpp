// scripts/readme in a copy of its folder, with a program that is a fake.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "shell.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;

using ac_advisor::test::Ran;

class Checkout {
 public:
  explicit Checkout(const std::string& readme) {
    fs::create_directories(folder_ / "scripts");
    for (const char* name : {"sample_models", "baselines", "docs", "tests/oracle/off"})
      fs::create_directories(folder_ / name);
    for (const char* name : {"accuracy", "advise", "evidence", "layouts", "oom", "tasks"})
      write(fmt::format("docs/{}.md", name), "no marks\n");
    fs::copy_file(fs::path(ac_advisor::test::source_dir) / "scripts/readme",
                  folder_ / "scripts/readme");
    write("ac-advisor.json", "{}\n");
    write("README.md", readme);
    write("ac-advisor", "#!/bin/sh\necho planned $1 in 7 ms\n");
    fs::permissions(folder_ / "ac-advisor", fs::perms::owner_all);
  }
  ~Checkout() { fs::remove_all(folder_); }
  Checkout(const Checkout&) = delete;
  Checkout& operator=(const Checkout&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void remove(const std::string& name) const { fs::remove(folder_ / name); }

  [[nodiscard]] Ran run(const std::string& option) const {
    return ac_advisor::test::shell(fmt::format(
        "AC_ADVISOR={0}/ac-advisor {0}/scripts/readme {1} 2>&1", folder_.string(), option));
  }
  [[nodiscard]] std::string readme() const {
    std::ifstream file(folder_ / "README.md");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / fmt::format("ac-readme-test-{}", getpid());
};

std::string with_block(const std::string& text) {
  return "before\n<!-- output\nac-advisor x | sed 's/ in .*//'\n-->\n```text\n" + text +
         "```\nafter\n";
}

}  // namespace

TEST_CASE("scripts/readme refuses a figure that the program does not print, and writes it anew") {
  const Checkout checkout(with_block("planned y\n"));
  const Ran stale = checkout.run("--check");
  CHECK(stale.code == 1);
  CHECK(stale.out.find("-planned y") != std::string::npos);
  CHECK(stale.out.find("+planned x") != std::string::npos);
  CHECK(checkout.readme() == with_block("planned y\n"));  // only said
  CHECK(checkout.run("").code == 0);
  CHECK(checkout.readme() == with_block("planned x\n"));
  CHECK(checkout.run("--check").code == 0);
}

TEST_CASE("scripts/readme leaves the trainer's block where there is no trainer, and says so") {
  const std::string text = "<!-- output trainer\nac-advisor x\n-->\n```text\nold\n```\n";
  const Checkout checkout(text);
  const Ran ran = checkout.run("--check");
  CHECK(ran.code == 0);
  CHECK(ran.out.find("ac-trainer is not built") != std::string::npos);
}

TEST_CASE("scripts/readme refuses a mark without a block, and a command that fails") {
  CHECK(Checkout("<!-- output\nac-advisor x\n-->\nno block\n").run("--check").code == 1);
  const Ran failed = Checkout("<!-- output\nfalse\n-->\n```text\n```\n").run("--check");
  CHECK(failed.code == 1);
  CHECK(failed.out.find("exit code 1 of: false") != std::string::npos);
}

TEST_CASE("scripts/readme refuses to do without one of its files") {
  const Checkout checkout("no marks\n");
  CHECK(checkout.run("--check").code == 0);
  checkout.remove("docs/layouts.md");
  const Ran ran = checkout.run("--check");
  CHECK(ran.code == 1);
  CHECK(ran.out.find("docs/layouts.md is not there") != std::string::npos);
}

TEST_CASE("scripts/readme writes what the oracle's planned steps are off by") {
  const Checkout checkout(
      "<!-- figure emulated_steps -->9<!-- end -->\n<!-- table oracle emulated -->\n<!-- end table "
      "-->\n");
  checkout.write("tests/oracle/emulated_peaks.json",
                 R"({"models": {"m": {"model_type": "llama"}}, "cases": [
    {"case": {"model": "m"}, "peak_allocated": 1000, "peak_reserved": 2000, "launches": {"forward": [3, 1], "loss": [6]}},
    {"case": {"model": "m"}, "peak_allocated": 1000, "peak_reserved": 2000, "launches": {"forward": [10]}},
    {"case": {"model": "m"}, "peak_allocated": 500, "peak_reserved": 2000, "launches": {"forward": [10]}}]})");
  checkout.write(
      "tests/oracle/off/emulated_peaks.json",
      R"({"a": {}, "b": {"allocated": -20, "reserved": 100, "launches": -1}, "c": {"refused": true}})");
  REQUIRE(checkout.run("").code == 0);
  // Two of three are planned. Of 0 and 20 of 1,000 the worst is 2 %; of 0 and 100 of 2,000 the
  // median 2.5 %, the worst 5 %; of 0 of 3 + 1 + 6 and 1 of 10 launches 5 and 10 %.
  CHECK(checkout.readme().find("<!-- figure emulated_steps -->2<!-- end -->") != std::string::npos);
  CHECK(
      checkout.readme().find("| `emulated_peaks.json` | 2 | 1 | 2.00 % | 2.50 % | 5.00 % | 5.00 % "
                             "| 10.00 % |") != std::string::npos);
}
