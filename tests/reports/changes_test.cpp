#include "reports/changes.hpp"

#include <doctest/doctest.h>

namespace ac_advisor::test {
namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("changes: where none was found, what was sought is told") {
  const reports::Style style{.width = 1000};
  CHECK(says(reports::changes_text({}, false, style), "was found that makes it fit."));
  CHECK(says(reports::changes_text({}, true, style), "holds as much less as the run lacked."));
}

TEST_CASE("changes: a change is the options that a shell takes") {
  advise::Change change;
  change.options = {{"--ac", "full"}, {"--no-hold-output", ""}};
  change.technique = "every block is recomputed in backward";
  const std::string text = reports::changes_text({change}, false, {.width = 1000});
  CHECK(says(text, "--ac full --no-hold-output: every block is recomputed in backward\n"));
}

}  // namespace ac_advisor::test
