// scripts/format in a copy of its folder, on files that are not as it would leave them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "shell.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;

using ac_advisor::test::Ran;

/// `scripts/format --check` where src/ has one file of that name and text.
Ran check(const std::string& file, const std::string& text) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("ac-format-test-{}", getpid());
  const fs::path source(ac_advisor::test::source_dir);
  for (const char* room :
       {"scripts", "include", "src", "reports", "web", "cli", "tests", "bench", "fuzz", "cmake"})
    fs::create_directories(folder / room);
  for (const char* copied : {"scripts/format", "scripts/bootstrap.sh", ".clang-format"})
    fs::copy_file(source / copied, folder / copied);
  std::ofstream(folder / "src" / file) << text;
  Ran checked = ac_advisor::test::shell((folder / "scripts/format").string() + " --check 2>&1");
  fs::remove_all(folder);
  return checked;
}

}  // namespace

TEST_CASE("scripts/format refuses what is not formatted, in every language that it is for") {
  for (const char* file : {"a.cpp", "a.hpp", "a.cu", "a.cuh", "a.js"}) {
    CAPTURE(file);
    const Ran wrong = check(file, "f  ( 1 ) ;\n");
    if (wrong.out.find("clang-format-14 is missing") != std::string::npos) {
      MESSAGE("clang-format-14 is not installed: nothing was checked");
      return;
    }
    CAPTURE(wrong.out);
    CHECK(wrong.code != 0);
    CHECK(wrong.out.find(file) != std::string::npos);
    CHECK(check(file, "f(1);\n").code == 0);
  }
}
