// scripts/readme in a copy of its folder, with a program that is a fake.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;
  std::string out;
};

class Checkout {
 public:
  explicit Checkout(const std::string& readme) {
    fs::create_directories(folder_ / "scripts");
    for (const char* name : {"sample_models", "baselines"}) fs::create_directories(folder_ / name);
    fs::copy_file(fs::path(ac_advisor::test::source_dir) / "scripts/readme",
                  folder_ / "scripts/readme");
    std::ofstream(folder_ / "ac-advisor.json") << "{}\n";
    std::ofstream(folder_ / "README.md") << readme;
    std::ofstream(folder_ / "ac-advisor") << "#!/bin/sh\necho planned $1 in 7 ms\n";
    fs::permissions(folder_ / "ac-advisor", fs::perms::owner_all);
  }
  ~Checkout() { fs::remove_all(folder_); }
  Checkout(const Checkout&) = delete;
  Checkout& operator=(const Checkout&) = delete;

  [[nodiscard]] Ran run(const std::string& option) const {
    const std::string line = fmt::format("AC_ADVISOR={0}/ac-advisor {0}/scripts/readme {1} 2>&1",
                                         folder_.string(), option);
    std::FILE* pipe = popen(line.c_str(), "r");
    REQUIRE(pipe != nullptr);
    Ran ran;
    for (char buffer[4096]; const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe);)
      ran.out.append(buffer, n);
    const int status = pclose(pipe);
    if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
    return ran;
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
