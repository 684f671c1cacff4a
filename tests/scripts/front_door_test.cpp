// What a newcomer copies or a forge reads: the action, the CI files, the hook, the issue forms, the
// release. Each is read, its shell is parsed, and what can run without a forge runs, against a gate
// of one small case.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ac_advisor/version.hpp"
#include "gate/gate_folder.hpp"
#include "intake/document.hpp"
#include "shell.hpp"
#include "test_paths.hpp"

using ac_advisor::intake::Node;
using ac_advisor::test::GateFolder;
using ac_advisor::test::Ran;
using ac_advisor::test::shell;
namespace fs = std::filesystem;

namespace {

const fs::path source(ac_advisor::test::source_dir);

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `script` by bash as a runner does it, in `folder`; stderr is part of what it printed.
Ran bash(const GateFolder& folder, const std::string& script, const std::string& options = "-e") {
  folder.write("script.sh", script);
  return shell(
      fmt::format("cd '{}' && bash --noprofile --norc {} script.sh 2>&1", folder / "", options));
}

/// Each script of a workflow, an action or a GitLab job: values of `run`, and lines of `script` and
/// `before_script`.
void collect_scripts(const Node& node, std::vector<std::string>& scripts) {
  for (const auto& [key, value] : node.members) {
    if (key == "run" && value.kind == Node::Kind::scalar) scripts.push_back(value.text);
    if (key == "script" || key == "before_script")
      for (const Node& line : value.items) scripts.push_back(line.text);
    collect_scripts(value, scripts);
  }
  for (const Node& item : node.items) collect_scripts(item, scripts);
}

std::vector<std::string> scripts_of(const std::string& file) {
  std::vector<std::string> scripts;
  collect_scripts(ac_advisor::intake::read_document((source / file).string()), scripts);
  return scripts;
}

/// The script of the action's step of that name.
std::string step(const std::string& name) {
  const Node action = ac_advisor::intake::read_document((source / "action.yml").string());
  for (const Node& one : action.find("runs")->find("steps")->items)
    if (one.find("name")->text == name) return one.find("run")->text;
  FAIL("action.yml has no step " << name);
  return {};
}

const ac_advisor::test::Json strict = {{"peak_allocated", {{"regression", {{"percent", 0}}}}}};

/// A folder with a gate that passes, the program on PATH, and a `gh` that writes down what it is
/// asked and prints the file `comments`.
struct Runner : GateFolder {
  Runner() {
    write_gate(ac_advisor::test::small_gate(strict));
    write("model/config.json", ac_advisor::test::small_llama().dump(2));
    write("bin/gh",
          "#!/bin/sh\necho \"$@\" >> asked\ncase \"$*\" in *--jq*) cat comments;; *) exit $(cat "
          "refuses);; esac\n");
    write("comments", "");
    write("refuses", "0");
    fs::permissions(*this / "bin/gh", fs::perms::owner_all);
    fs::create_directory(*this / "ac-advisor");
    REQUIRE(run("ac-advisor check --update").code == 0);
  }
  [[nodiscard]] Ran run(const std::string& script) const {
    const std::string program(ac_advisor::test::program);
    return bash(
        *this,
        fmt::format(
            "export PATH='{}':'{}':\"$PATH\" RUNNER_TEMP=. GITHUB_OUTPUT=outputs "
            "GITHUB_STEP_SUMMARY=summary CONFIG=ac-advisor.json REPOSITORY=o/r NUMBER=7\n{}",
            *this / "bin", fs::path(program).parent_path().string(), script),
        "-eo pipefail");
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the front door: every YAML file is read, and every script in it is bash") {
  if (!ac_advisor::test::has_yaml) return;
  const GateFolder folder;
  for (const auto& [bound_file, scripts] : std::vector<std::pair<std::string, std::size_t>>{
           {"action.yml", 4},
           {".github/workflows/release.yml", 6},
           {"docs/ci/github-actions.yml", 0},
           {"docs/ci/gitlab-ci.yml", 3},
           {".pre-commit-hooks.yaml", 0},
           {".github/ISSUE_TEMPLATE/bug.yml", 0},
           {".github/ISSUE_TEMPLATE/wrong_figure.yml", 0},
           {".github/ISSUE_TEMPLATE/config.yml", 0}}) {
    const auto& file = bound_file;
    CAPTURE(file);
    const std::vector<std::string> found = scripts_of(file);
    CHECK(found.size() == scripts);
    for (std::string script : found) {
      // What the forge puts in before a shell sees it.
      for (std::size_t at; (at = script.find("${{")) != std::string::npos;)
        script.replace(at, script.find("}}", at) + 2 - at, "x");
      const Ran parsed = bash(folder, script, "-n");
      CAPTURE(parsed.out);
      CHECK(parsed.code == 0);
    }
  }
}

TEST_CASE("the front door: the scripts are shell, and the files that they name are there") {
  const GateFolder folder;
  for (const char* script : {"scripts/wheel", "scripts/image_root"})
    CHECK(bash(folder, text_of(source / script), "-n").code == 0);
  // What the image and the container are made of.
  const std::string dockerfile = text_of(source / "Dockerfile");
  CHECK(contains(dockerfile, "COPY scripts/image_root /"));
  CHECK(contains(text_of(source / ".dockerignore"), "!scripts/image_root"));
  for (const char* script : {"scripts/wheel", "scripts/check_wheel", "scripts/image_root"}) {
    CAPTURE(script);
    CHECK(contains(text_of(source / ".github/workflows/release.yml"), script));
    CHECK((fs::status(source / script).permissions() & fs::perms::owner_exec) != fs::perms::none);
  }
  const auto container =
      ac_advisor::test::Json::parse(text_of(source / ".devcontainer/devcontainer.json"));
  const Ran parsed = bash(folder, container["onCreateCommand"].get<std::string>(), "-n");
  CHECK(parsed.code == 0);
}

TEST_CASE("the front door: GitLab's commands and the hook's are what the program takes") {
  if (!ac_advisor::test::has_yaml) return;
  const Runner runner;
  int commands = 0;
  for (const std::string& line : scripts_of("docs/ci/gitlab-ci.yml")) {
    if (!line.starts_with("ac-advisor ")) continue;
    ++commands;
    CHECK(runner.run(line).code == 0);
    const std::string out = line.substr(line.find("--output ") + 9);
    CHECK(!runner.read(out.substr(0, out.find(' '))).empty());
  }
  CHECK(commands == 2);
  const Node hooks =
      ac_advisor::intake::read_document((source / ".pre-commit-hooks.yaml").string());
  REQUIRE(hooks.items.size() == 1);
  CHECK(runner.run(hooks.items[0].find("entry")->text).code == 0);
}

TEST_CASE("the action: passes where the gate does, and comments once") {
  if (!ac_advisor::test::has_yaml) return;
  const Runner runner;
  REQUIRE(runner.run(step("Memory gate")).code == 0);
  CHECK(contains(runner.read("outputs"), "exit-code=0"));
  CHECK(contains(runner.read("summary"), "passed"));
  CHECK(contains(runner.read("ac-advisor/memory.xml"), "<testsuite"));
  REQUIRE(runner.run(step("Comment")).code == 0);
  CHECK(contains(runner.read("ac-advisor/comment.md"), "<!-- ac-advisor -->\n### Memory gate"));
  CHECK(contains(runner.read("asked"), "--method POST repos/o/r/issues/7/comments"));
  runner.write("comments", "42\n");
  REQUIRE(runner.run(step("Comment")).code == 0);
  CHECK(contains(runner.read("asked"), "--method PATCH repos/o/r/issues/comments/42"));
  CHECK(runner.run("CODE=0\n" + step("Verdict")).code == 0);
}

TEST_CASE(
    "the action: a limit that is exceeded is commented and fails the job, a refused comment does "
    "not") {
  if (!ac_advisor::test::has_yaml) return;
  const Runner runner;
  auto wider = ac_advisor::test::small_llama();
  wider["num_hidden_layers"] = wider["num_hidden_layers"].get<int>() + 1;
  runner.write("model/config.json", wider.dump(2));
  CHECK(runner.run(step("Memory gate")).code == 0);  // the last step fails the job
  CHECK(contains(runner.read("outputs"), "exit-code=1"));
  CHECK(contains(runner.read("ac-advisor/verdict.md"), "failed"));
  runner.write("refuses", "1");
  const Ran refused = runner.run(step("Comment"));
  CHECK(refused.code == 0);
  CHECK(contains(refused.out, "::warning::the verdict could not be commented"));
  CHECK(runner.run("CODE=1\n" + step("Verdict")).code == 1);
}

TEST_CASE("the front door: the version stands in one way everywhere") {
  const std::string version(ac_advisor::version);
  CHECK(contains(text_of(source / "CITATION.cff"), "\nversion: " + version + "\n"));
  const std::string changes = text_of(source / "CHANGELOG.md");
  const std::size_t section = changes.find("\n## ");
  CHECK(changes.substr(section + 4, version.size() + 1) == version + "\n");
  for (const char* file : {"docs/ci/github-actions.yml", "docs/ci/README.md", "README.md"}) {
    const std::string text = text_of(source / file);
    for (std::size_t at = 0; (at = text.find("ac-advisor@v", at)) != std::string::npos; ++at)
      CHECK(text.substr(at + 12, version.size()) == version);
  }
  CHECK(contains(text_of(source / "docs/ci/README.md"), "rev: v" + version));
  for (const char* file : {"docs/install.md", "README.md"})
    CHECK(contains(text_of(source / file),
                   "pip install ac_advisor-" + version + "-py3-none-manylinux_2_28_x86_64.whl"));
}
