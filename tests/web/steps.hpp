#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ac_advisor::test {

/// A question to the page's core (web/core/answer.hpp), and what the native program answers.
struct Expected {
  nlohmann::json question;
  std::string answer;  ///< what `--format json` prints, or the error
  bool refused = false;
};

/// Steps of every family, of every sample, of every word of every option; and two sweeps.
[[nodiscard]] std::vector<Expected> expected_answers();

/// build/web/, where `cmake --preset web` has put the page. Without it, tests are told to be
/// skipped (an empty path), but in CI, where it throws.
[[nodiscard]] std::filesystem::path web_folder();

/// Counts what differs, and tells the first.
struct Agreement {
  std::size_t same = 0, refusals = 0, different = 0;
  std::string first_difference;
};
[[nodiscard]] Agreement agreement(const std::vector<Expected>& expected,
                                  const nlohmann::json& answers);

}  // namespace ac_advisor::test
