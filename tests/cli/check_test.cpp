// ac-advisor check as CI runs it: exit codes, files, and the examples of docs/ci.
#include <unistd.h>

#include "gate/gate_folder.hpp"
#include "shell.hpp"
#include "test_paths.hpp"

using ac_advisor::test::GateFolder;
using ac_advisor::test::Json;
using ac_advisor::test::Ran;
using ac_advisor::test::shell;
namespace fs = std::filesystem;

namespace {

const std::string program(ac_advisor::test::program);

/// Runs in the folder; stderr goes where `more` sends it.
Ran check(const GateFolder& folder, const std::string& arguments, const std::string& before = {}) {
  return shell("cd '" + folder / "" + "' && " + before + " " + program + " check " + arguments);
}

struct SmallGate : GateFolder {
  explicit SmallGate(const Json& limits) {
    write_gate(ac_advisor::test::small_gate(limits));
    write("model/config.json", ac_advisor::test::small_llama().dump(2));
  }
};

const Json strict = {{"peak_allocated", {{"regression", {{"percent", 0}}}}}};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("check: 0 passes, 1 exceeds, 2 bad input, 3 could not measure") {
  const SmallGate folder(strict);
  CHECK(check(folder, "").code == 1);  // no baseline yet
  CHECK(check(folder, "--update").code == 0);
  CHECK(check(folder, "").code == 0);
  CHECK(check(folder, "--only small").code == 0);
  for (const char* bad :
       {"--only smal", "--config no.json", "--config model", "--format csv", "--format",
        "--today yesterday", "--confg x", "extra", "--output /no/such/folder/f", "> /dev/full"}) {
    CAPTURE(bad);
    CHECK(check(folder, std::string(bad) + " 2>/dev/null").code == 2);
  }
  folder.write("ac-advisor.json", "{");
  CHECK(check(folder, "2>/dev/null").code == 2);
  folder.write_gate({{"cases",
                      {{{"name", "m"},
                        {"source", "measured"},
                        {"profile", "none.json"},
                        {"limits", {{"peak_allocated", {{"budget", 1}}}}}}}}});
  fs::remove(folder / "baselines/small.json");
  CHECK(check(folder, "").code == 3);
}

TEST_CASE("check: --init writes a file that works at once, and never over another") {
  const GateFolder folder;
  CHECK(check(folder, "--init").code == 0);
  const std::string first = folder.read("ac-advisor.json");
  CHECK(check(folder, "--init 2>/dev/null").code == 2);
  CHECK(check(folder, "tiny-llama 2>/dev/null").code == 2);
  CHECK(check(folder, "--batch 4 2>/dev/null").code == 2);
  CHECK(folder.read("ac-advisor.json") == first);
  CHECK(check(folder, "--update").code == 0);
  CHECK(check(folder, "").code == 0);
  const GateFolder other;  // of the model and the options that are given
  other.write("mine/config.json", ac_advisor::test::small_llama().dump());
  CHECK(check(other, "--init mine --batch 2 --seq 64 --ac every:2 --no-hold-output").code == 0);
  const Json one = Json::parse(other.read("ac-advisor.json"))["cases"][0];
  CHECK(one["name"] == "mine-every-2");
  CHECK(one["model"] == "mine");
  CHECK(one["options"] ==
        Json{{"batch", 2}, {"seq", 64}, {"ac", "every:2"}, {"no-hold-output", true}});
  CHECK(check(other, "--update").code == 0);
  CHECK(check(other, "").code == 0);
  const GateFolder own;  // with a model of one's own beside it
  own.write("config.json", ac_advisor::test::small_llama().dump());
  CHECK(check(own, "--init --update").code == 0);
  CHECK(Json::parse(own.read("ac-advisor.json"))["cases"][0]["model"] == "config.json");
  CHECK(check(own, "").code == 0);
}

TEST_CASE("check: paths are those of the file, not of where it is run") {
  const SmallGate folder(strict);
  const std::string config = "--config '" + folder / "ac-advisor.json'";
  CHECK(shell("cd / && " + program + " check --update " + config).code == 0);
  CHECK(fs::exists(folder / "baselines/small.json"));
  CHECK(shell("cd / && " + program + " check " + config).code == 0);
}

TEST_CASE("check: --update is whole or not at all") {
  const SmallGate folder(strict);
  REQUIRE(check(folder, "--update").code == 0);
  const std::string good = folder.read("baselines/small.json");
  Json model = ac_advisor::test::small_llama();
  model["num_hidden_layers"] = 4;
  folder.write("model/config.json", model.dump());
  // A file may not grow beyond 512 bytes: a full disk.
  const Ran full = check(folder, "--update 2>&1", "ulimit -f 1;");
  CHECK(full.code == 2);
  CHECK(contains(full.out, "baselines/small.json"));
  CHECK(contains(full.out, "left as it was"));
  CHECK(folder.read("baselines/small.json") == good);
  CHECK(std::distance(fs::directory_iterator(folder / "baselines"), fs::directory_iterator()) == 1);
  if (geteuid() != 0) {  // root may write everywhere
    fs::permissions(folder / "baselines", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(check(folder, "--update 2>/dev/null").code == 2);
    CHECK(folder.read("baselines/small.json") == good);
    fs::permissions(folder / "baselines", fs::perms::owner_all);
  }
  CHECK(check(folder, "--update").code == 0);
  CHECK(folder.read("baselines/small.json") != good);
}

TEST_CASE("check: --update leaves what it cannot plan, and says so") {
  const SmallGate folder(strict);
  REQUIRE(check(folder, "--update").code == 0);
  const std::string good = folder.read("baselines/small.json");
  folder.write("model/config.json", "{}");
  const Ran result = check(folder, "--update 2>&1");
  CHECK(result.code == 2);
  CHECK(contains(result.out, "model_type"));
  CHECK(folder.read("baselines/small.json") == good);
}

TEST_CASE("check: every format goes to stdout or to a file, and the file's table to stderr") {
  const SmallGate folder(strict);
  REQUIRE(check(folder, "--update").code == 0);
  for (const char* format : {"table", "json", "md", "junit", "github", "gitlab", "bencher"}) {
    CAPTURE(format);
    const Ran out = check(folder, std::string("--format ") + format);
    CHECK(out.code == 0);
    const Ran log = check(folder, std::string("--format ") + format + " --output f 2>&1");
    CHECK(log.code == 0);
    CHECK(contains(log.out, "passed"));
    CHECK(folder.read("f") == out.out);
  }
}

TEST_CASE("check: GitHub's step summary is appended to, for its own format only") {
  const SmallGate folder(strict);
  REQUIRE(check(folder, "--update").code == 0);
  folder.write("summary.md", "before\n");
  const std::string set = "GITHUB_STEP_SUMMARY=summary.md";
  CHECK(check(folder, "", set).code == 0);
  CHECK(folder.read("summary.md") == "before\n");
  CHECK(check(folder, "--format github", set).code == 0);
  CHECK(contains(folder.read("summary.md"), "before\n### Memory gate: 1 case"));
  // A summary that cannot be written changes no verdict.
  CHECK(check(folder, "--format github 2>/dev/null", "GITHUB_STEP_SUMMARY=/no/such/f").code == 0);
}

TEST_CASE("check: the day comes from --today, else from SOURCE_DATE_EPOCH") {
  Json gate = ac_advisor::test::small_gate({{"peak_allocated", {{"budget", 1}}}});
  gate["waivers"] = {{{"case", "small"},
                      {"figure", "peak_allocated"},
                      {"reason", "r"},
                      {"expires", "2001-09-09"}}};
  const SmallGate folder(strict);
  folder.write_gate(gate);
  CHECK(check(folder, "--today 2001-09-09").code == 0);
  CHECK(check(folder, "--today 2001-09-10").code == 1);
  // date -u -d @1000000000: 2001-09-09 01:46:40
  CHECK(check(folder, "", "SOURCE_DATE_EPOCH=1000000000").code == 0);
  CHECK(check(folder, "", "SOURCE_DATE_EPOCH=1000086400").code == 1);
  CHECK(check(folder, "--today 2001-09-09", "SOURCE_DATE_EPOCH=1000086400").code == 0);
  CHECK(check(folder, "2>/dev/null", "SOURCE_DATE_EPOCH=now").code == 2);
  CHECK(check(folder, "").code == 1);  // today is long past it
}

TEST_CASE("check: the example of docs/ci/README.md is read without complaint") {
  std::ifstream file(std::string(ac_advisor::test::source_dir) + "/docs/ci/README.md");
  std::ostringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  const std::size_t begin = text.find("```json\n") + 8;
  const auto gate =
      ac_advisor::gate::parse_gate_file(text.substr(begin, text.find("```", begin) - begin), "x");
  CHECK(gate.cases.size() == 2);
  CHECK(gate.waivers.size() == 1);
}
