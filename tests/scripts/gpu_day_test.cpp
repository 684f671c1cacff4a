// The run on a GPU (bench/gpu), as far as it can be tried without one: gpu_day_check.py.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "shell.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;

void passes(const std::string& check) {
  const ac_advisor::test::Ran ran = ac_advisor::test::shell(fmt::format(
      "python3 '{}/tests/scripts/gpu_day_check.py' {} 2>&1", ac_advisor::test::source_dir, check));
  INFO(ran.out);
  CHECK(ran.code == 0);
  CHECK(ran.out.ends_with("passed\n"));
}

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a run on a GPU has a row for every case, whatever becomes of its process") {
  passes("every_case_has_a_row");
}

TEST_CASE("a run on a GPU that is killed in the middle leaves files that parse") {
  passes("killed_in_the_middle");
}

TEST_CASE("a second run on a GPU adds to the first") { passes("a_later_row_counts"); }

TEST_CASE("what a run on a GPU puts on Python's path hides no module") {
  passes("no_module_is_hidden");
}

TEST_CASE("a run on a GPU measures one case of each model before all others") {
  passes("cases_are_in_order");
}

TEST_CASE("a GPU's device file is found by the driver's name for it") {
  passes("a_device_has_its_file");
}

TEST_CASE("tests beside LibTorch's headers have doctest's CHECK") {
  const fs::path tests = fs::path(ac_advisor::test::source_dir) / "tests";
  std::string direct;
  for (const char* room : {"trainer", "gpu"})
    for (const auto& entry : fs::recursive_directory_iterator(tests / room)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name == "doctest_after_torch.hpp") continue;
      const std::string text = text_of(entry.path());
      // No header of LibTorch reaches the kernels' own tests, which are built without it, too.
      if (name != "device_kernels_test.cpp" && text.find("<doctest/") != std::string::npos)
        direct += name + " ";
    }
  CHECK(direct == "");
}
