// Launch scripts: which overrides they hand on. Expectations: GNU Bash manual, 3.1 to 3.5 and 6.5.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "intake/document.hpp"
#include "intake/mapped.hpp"
#include "intake/shell.hpp"

namespace ac_advisor::test {
namespace {

intake::Node read(const std::string& script) { return intake::parse_script(script, "run.sh"); }

std::string why(const std::string& script) {
  return why_not([&] { return read(script); });
}

/// The value of one override behind the lines of `before`.
std::string value(const std::string& before, const std::string& text) {
  const intake::Node map = read(before + "\npython3 -m main a.b=" + text + "\n");
  const intake::Node* node = map.find("a.b");
  return node == nullptr ? "(none)" : node->shown();
}

std::string unset(const std::string& before, const std::string& text) {
  const intake::Node map = read(before + "\npython3 -m main a.b=" + text + "\n");
  const intake::Node* node = map.find("a.b");
  return node == nullptr ? "(none)" : node->unset;
}

std::optional<std::int64_t> sum(std::string_view text) {
  return intake::shell_arithmetic(text, [](std::string_view name) -> std::optional<std::int64_t> {
    return name == "two" ? std::optional<std::int64_t>(2) : std::nullopt;
  });
}

}  // namespace

TEST_CASE("a command's overrides have the lines where they stand, and of two the last one counts") {
  const intake::Node map = read(
      "#!/bin/bash\n"
      "set -x\n"
      "python3 -m verl.trainer.main_ppo --config-name='ppo_trainer.yaml' \\\n"
      "    trainer.nnodes=1 +data.extra=x \\\n"
      "    ++trainer.nnodes=2 ~data.seed trainer.logger=['console','wandb'] \\\n"
      "    data.files=\"['a, b', 'c']\" data.none=null data.word=\"'null'\" 2>&1 | tee log\n");
  CHECK(map.members.size() == 8);
  CHECK(map.find("--config-name")->text == "ppo_trainer.yaml");
  CHECK(map.find("trainer.nnodes")->text == "2");
  CHECK(map.find("trainer.nnodes")->line == 5);
  CHECK(map.find("data.extra")->line == 4);
  CHECK(map.find("data.seed")->kind == intake::Node::Kind::null);
  CHECK(map.find("data.none")->kind == intake::Node::Kind::null);
  CHECK(map.find("data.word")->text == "null");
  CHECK(map.find("trainer.logger")->shown() == "[console, wandb]");
  REQUIRE(map.find("data.files")->items.size() == 2);
  CHECK(map.find("data.files")->items[0].text == "a, b");
}

TEST_CASE("variables, quotes and integers are bash's") {
  CHECK(value("X=7", "$X") == "7");
  CHECK(value("X=7", "${X}0") == "70");
  CHECK(value("export X=7 Y=$X", "$Y") == "7");
  CHECK(value("X=7", "'$X'") == "$X");
  CHECK(value("X=7", "\"n$X\"") == "n7");
  CHECK(value("X=7", "\\$X") == "$X");
  CHECK(value("", "${X:-7}") == "7");
  CHECK(value("X=", "${X:-7}") == "7");
  CHECK(value("X=", "${X-7}") == "null");  // empty, which is set
  CHECK(value("X=5", "${X:-7}") == "5");
  CHECK(value("X=5", "${X:+7}") == "7");
  CHECK(value("X=${X:-${Y:-\"a b\"}}", "\"$X\"") == "a b");
  CHECK(value("X=${X:=3}", "$X") == "3");
  CHECK(value("p=512\nc=$((1024 * 2))", "$((p + c))") == "2560");
  CHECK(value("p=512", "$(((p + 512) * 3 / 2))") == "1536");
  CHECK(value("X=1\nX+=2", "$X") == "12");
  CHECK(value("cat <<EOF\nX=1 'no quote\nEOF\nX=2", "$X") == "2");
}

TEST_CASE("arrays and words that part at blanks are several overrides") {
  const intake::Node map = read(
      "A=(\n  a.b=1  # first\n  a.c=\"x y\"\n)\n"
      "A+=(a.d=3)\nE=()\nMORE=\"a.e=4 a.f=5\"\n"
      "LAUNCH=(python3 -m main)\n"
      "\"${LAUNCH[@]}\" \"${A[@]}\" \"${E[@]}\" $MORE \"$@\"\n");
  CHECK(map.members.size() == 5);
  CHECK(map.find("a.c")->text == "x y");
  CHECK(map.find("a.c")->line == 3);
  CHECK(map.find("a.d")->text == "3");
  CHECK(map.find("a.f")->text == "5");
  REQUIRE(map.notes.size() == 1);
  CHECK(contains(map.notes[0], "$@"));
}

TEST_CASE("what the script does not say stays open, with the reason") {
  CHECK(unset("", "$HOME/x") == "$HOME is not set in the script");
  CHECK(value("", "$HOME/x") == "$HOME/x");
  CHECK(unset("X=$(date)", "$X") == "what a command prints is not known");
  CHECK(unset("", "$((n * 2))") == "$n is not set in the script");
  CHECK(contains(unset("", "${X##*/}"), "not followed"));
  CHECK(contains(unset("", "$1"), "not known before the script runs"));
  CHECK(contains(unset("X=1\nif [ -n \"$Y\" ]; then\n  X=2\nfi", "$X"),
                 "$X is set under a condition in line 3"));
  CHECK(contains(unset("X=1\n[ -n \"$Y\" ] && X=2", "$X"), "under a condition"));
  CHECK(contains(unset("for X in 1 2; do", "$X\ndone"), "under a condition"));
  CHECK(unset("X=1\nif true; then X=1; fi\nX=2", "$X").empty());
  const intake::Node map =
      read("A=(a.b=1)\ncase $Y in\n  z) A+=(a.c=2) ;;\nesac\npython3 -m main \"${A[@]}\"\n");
  CHECK(map.members.size() == 1);
  REQUIRE(map.notes.size() == 1);
  CHECK(contains(map.notes[0], "line 3: what $A gets under a condition is left out"));
}

TEST_CASE("what a script is called with is its default, where it has one") {
  CHECK(value("A=${3:-x}", "$A") == "x");
  CHECK(value("A=${12-\"x y\"}", "\"$A\"") == "x y");
  CHECK(contains(unset("A=${3}", "$A"), "not followed"));
  CHECK(contains(unset("A=${3:?}", "$A"), "not followed"));
}

TEST_CASE("a condition on what the script itself sets is followed, others are not") {
  const auto set = [](const std::string& test) {
    return value("A=x\nN=2\nX=0\nif " + test + "; then\n  X=1\nelse\n  X=2\nfi", "$X");
  };
  CHECK(set("[[ \"$A\" == \"x\" ]]") == "1");
  CHECK(set("[ \"$A\" = y ]") == "2");
  CHECK(set("[[ $A != x ]]") == "2");
  CHECK(set("[[ -z \"$A\" ]]") == "2");
  CHECK(set("test -n \"$A\"") == "1");
  CHECK(set("[ $N -gt 1 ]") == "1");
  CHECK(set("[[ $N -eq 3 ]] || [[ $A == x ]]") == "1");
  CHECK(set("[[ $N -eq 2 && $A == y ]]") == "2");
  CHECK(set("[[ -n \"$HOME\" ]] || [[ $A == x ]]") == "1");  // whatever $HOME is
  for (const char* test :
       {"[[ -n \"$HOME\" ]]", "[ -f x ]", "[[ $A == x* ]]", "! [[ $A == x ]]", "true",
        "[[ $A == x ]]; [[ $N -eq 2 ]]", "[[ -n \"$HOME\" ]] && [[ $A == x ]]", "(( N > 1 ))",
        "[[ $N -eq 2 ]] && [[ $A == y ]] || true", "grep -q x file"})
    CHECK(contains(unset("A=x\nN=2\nX=0\nif " + std::string(test) + "; then X=1; fi", "$X"),
                   "under a condition"));
  const std::string chain = "if [ $A = x ]; then X=1; elif [ $A = y ]; then X=2; else X=3; fi";
  CHECK(value("A=x\n" + chain, "$X") == "1");
  CHECK(value("A=y\n" + chain, "$X") == "2");
  CHECK(value("A=z\n" + chain, "$X") == "3");
  CHECK(contains(unset(chain, "$X"), "under a condition"));
  const std::string within = "if [ $A = y ]; then\n  if [ -f f ]; then X=1; fi\n  X=2\nfi";
  CHECK(value("A=x\nX=0\n" + within, "$X") == "0");
  CHECK(value("A=y\nX=0\n" + within, "$X") == "2");
  CHECK(read("A=1\nif [ $A = 1 ]; then python3 -m main a.b=1; else python3 -m main a.b=2; fi")
            .find("a.b")
            ->text == "1");
}

TEST_CASE("a script that is none, or has two such commands, is refused with its line") {
  CHECK(contains(why("echo hello\n"), "run.sh: no command of this script has overrides"));
  CHECK(contains(why("main a.b=1\nmain a.b=2\n"), "run.sh:2: a second command with overrides"));
  // As in bash, a comment ends what a backslash has continued.
  CHECK(contains(why("main a.b=1 \\\n  # a.c=2 \\\n  a.d=3\n"), "a comment between"));
  CHECK(contains(why("main a.b='1\n"), "run.sh:1: a quote that nothing closes"));
  CHECK(contains(why("\nmain a.b=${X\n"), "run.sh:2: a brace that nothing closes"));
  CHECK(contains(why("A=(a.b=1\n"), "run.sh:1: an array that nothing closes"));
}

TEST_CASE("hostile scripts are refused quickly") {
  std::string nested = "main a.b=", sums = "main a.b=";
  for (int i = 0; i < 100000; ++i) nested += "${X:-", sums += "$((";
  CHECK(contains(why(nested), "nested more than 32 deep"));
  CHECK(contains(why(sums), "nested more than 32 deep"));
  std::string doubled = "X=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) doubled += "X=$X$X\n";
  CHECK(contains(why(doubled + "main a.b=$X\n"), "expand to more than a script has"));
  std::string items = "A=(a.b=1)\n";
  for (int i = 0; i < 40; ++i) items += "A=(\"${A[@]}\" \"${A[@]}\")\n";
  CHECK(contains(why(items + "main \"${A[@]}\"\n"), "expand to more than a script has"));
  std::string many = "main";
  for (int i = 0; i < 5000; ++i) many += " a.k" + std::to_string(i) + "=1";
  CHECK(contains(why(many + "\n"), "more than 2048 overrides"));
}

TEST_CASE("arithmetic that bash would not do in 64 bits, or that is not followed, is none") {
  CHECK(sum("1 + 2 * 3") == 7);
  CHECK(sum("-2 ** 2") == 4);
  CHECK(sum("2 ** 3 ** 2") == 512);
  CHECK(sum("(two + 1) % 2") == 1);
  CHECK(sum("7 / 2") == 3);
  CHECK(sum("10 - 2 - 3") == 5);
  for (const char* none : {"", "1 +", "(1", "1 / 0", "1 % 0", "three", "1 < 2", "010", "2 ** 63",
                           "9223372036854775807 + 1", "3 ** 62"})
    CHECK_FALSE(sum(none));
  CHECK_FALSE(sum(std::string(100000, '(')));
  CHECK_FALSE(sum("-9223372036854775807 - 2"));
}

}  // namespace ac_advisor::test
