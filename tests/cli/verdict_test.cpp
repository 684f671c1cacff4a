// What an answer on a terminal begins and ends with: the verdict, what it rests on, what to do.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "shell.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

/// In a locale of UTF-8, its messages on stderr left out.
Ran run(const std::string& arguments) {
  return shell("LC_ALL=C.UTF-8 " + std::string(program) + " " + arguments + " 2>/dev/null");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The command behind "Next: ", which stands in a line of its own.
std::string next_of(const std::vector<std::string>& lines) {
  const std::string mark = "Next: ac-advisor ";
  return lines.back().starts_with(mark) ? lines.back().substr(mark.size()) : "";
}

}  // namespace

TEST_CASE("plan: the verdict first, then what was assumed, and last the setting to paste") {
  const auto lines = lines_of(run("plan llama-3.2-1b --world 8 --shard fsdp2 --seq 4096").out);
  REQUIRE(lines.size() > 4);
  CHECK(lines[0].starts_with("✓ Fits: "));
  CHECK(lines[0].ends_with(" on each of 8 h100-80gb"));
  CHECK(lines[1].starts_with("assumed: --gpu h100-80gb, --batch 1, --framework hf (a loop of"));
  CHECK(next_of(lines) == "export llama-3.2-1b --world 8 --shard fsdp2 --seq 4096 --to hf");
  CHECK(run(next_of(lines)).code == 0);
}

TEST_CASE("plan: all that decides was given, so nothing is assumed") {
  const auto lines =
      lines_of(run("plan llama-3.2-1b --framework trl --gpu a100-80gb --batch 2 --seq 1024").out);
  REQUIRE(lines.size() > 4);
  CHECK(lines[0].ends_with(" on one a100-80gb"));
  CHECK(lines[1].empty());
  CHECK(run("plan tiny-llama --framework trl --gpu l4").out.find("transformers.Trainer with") ==
        std::string::npos);
}

TEST_CASE("plan: what does not fit says by how much, and ends with a plan that does") {
  const std::string step = "llama-3.2-1b --batch 8 --seq 2048 --gpu rtx-4090";
  const Ran ran = run("plan " + step);
  CHECK(ran.code == 0);
  const auto lines = lines_of(ran.out);
  CHECK(lines[0].starts_with("✗ Does not fit one rtx-4090: "));
  CHECK(lines[0].ends_with(" GiB too much"));
  REQUIRE(next_of(lines).starts_with("plan llama-3.2-1b --batch "));
  CHECK(lines_of(run(next_of(lines)).out)[0].starts_with("✓ Fits"));
}

TEST_CASE("plan --fail-if-oom exits with 1 where the step does not fit, in every format") {
  for (const char* format : {"table", "json", "csv", "md", "html"}) {
    CAPTURE(std::string(format));
    const std::string options = std::string(" --fail-if-oom --format ") + format;
    CHECK(run("plan tiny-llama" + options).code == 0);
    const Ran ran = run("plan llama-3.1-8b --gpu l4" + options);
    CHECK(ran.code == 1);
    CHECK_FALSE(ran.out.empty());
  }
  CHECK(run("plan llama-3.1-8b --gpu l4").code == 0);
  CHECK(run("advise tiny-llama --fail-if-oom").code == 2);
}

TEST_CASE("what was assumed is in the JSON, too") {
  const auto json = nlohmann::json::parse(run("plan tiny-llama --batch 2 --format json").out);
  REQUIRE_FALSE(json["assumptions"].empty());
  CHECK(json["assumptions"][0].get<std::string>().starts_with(
      "assumed: --gpu h100-80gb, --seq 2048, --framework hf"));
}

TEST_CASE("advise says first what to use or that nothing fits, --solve and check likewise") {
  const auto fits = lines_of(run("advise tiny-llama --gpu l4").out);
  CHECK(fits[0].starts_with("✓ "));
  CHECK(fits[0].find(" on one l4, an estimated ") != std::string::npos);
  CHECK(fits[1].starts_with("  tokens/s"));
  CHECK(fits[2].starts_with("assumed: --batch 1, --seq 2048, --framework hf"));
  CHECK(lines_of(run("advise llama-3.1-8b --gpu l4 --ac full --batch 1 --seq 512").out)[0] ==
        "✗ Nothing that hf has fits one l4");
  const auto solved = lines_of(run("advise tiny-llama --solve batch --gpu l4 --ac full").out);
  CHECK(solved[0].starts_with("✓ the largest batch of tiny-llama on l4"));
  CHECK(solved.back().find("hf-trainer") != std::string::npos);
  CHECK(run("advise tiny-llama --solve batch --gpu l4 --ac full").out.find("--batch 1") ==
        std::string::npos);
  CHECK(run("check --only llama-1b-full").out.starts_with("✓ ac-advisor.json: 1 case"));
}

TEST_CASE("compare lays two settings of a model side by side, as it does their saved plans") {
  const auto in = [](const char* name) {
    return (std::filesystem::path(binary_dir) / name).string();
  };
  const std::string step = "llama-3.2-1b --batch 4 --ac none", other = "--ac full --batch=2";
  REQUIRE(run("plan " + step + " --format json --output " + in("a.json")).code == 0);
  REQUIRE(run("plan " + step + " " + other + " --format json --output " + in("b.json")).code == 0);
  auto saved = nlohmann::json::parse(
      run("compare " + in("a.json") + " " + in("b.json") + " --format json").out);
  auto typed = nlohmann::json::parse(run("compare " + step + " --format json -- " + other).out);
  CHECK(typed["a"] == step);
  CHECK(typed["b"] == step + " --ac full --batch 2");
  for (auto* json : {&saved, &typed})
    for (const char* side : {"a", "b"}) json->erase(side);
  CHECK(typed == saved);
  for (const char* format : {"table", "csv", "md", "html"})
    CHECK(run("compare " + step + " --format " + format + " -- " + other).code == 0);
}

TEST_CASE("compare refuses half of a comparison, and options that are no step's") {
  for (const char* bad : {"llama-3.2-1b", "a.json b.json --batch 2", "a.json b.json -- --ac full",
                          "tiny-llama -- --bacth 2", "tiny-llama -- --format json",
                          "tiny-llama -- --help", "tiny-llama -- --batch 0", "-- --batch 2"}) {
    CAPTURE(std::string(bad));
    CHECK(run(std::string("compare ") + bad).code == 2);
  }
}

TEST_CASE("--solve world and gpu: what is sought is not given, and every format has them") {
  for (const char* what : {"world", "gpu"}) {
    CAPTURE(std::string(what));
    const std::string solve = std::string("advise tiny-llama --ac full --solve ") + what;
    CHECK(run(solve + " --" + what + (what == std::string("gpu") ? " l4" : " 2")).code == 2);
    const Ran table = run(solve);
    CHECK(table.out.starts_with("✓ "));
    CHECK(table.out.find("assumed: ") != std::string::npos);
    CHECK(table.out.find(std::string("assumed: --") + what) == std::string::npos);
    for (const char* format : {"json", "csv", "md", "html"}) {
      const Ran ran = run(solve + " --format " + format);
      CHECK(ran.code == 0);
      CHECK_FALSE(ran.out.empty());
    }
    CHECK(nlohmann::json::parse(run(solve + " --format json").out)["sought"] == what);
  }
}

}  // namespace ac_advisor::test
