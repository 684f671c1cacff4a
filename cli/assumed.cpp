#include "cli/assumed.hpp"

#include "ac_advisor/model/option_table.hpp"
#include "reports/grid.hpp"

namespace ac_advisor::cli {
namespace {

/// What tells the default from the loop that most have.
constexpr const char* plain_loop =
    " (a loop of your own, weights as they are loaded; transformers.Trainer with bf16=True has "
    "fp32 ones: --framework hf-trainer)";

bool decides(std::string_view option, const OptionList& by_hand) {
  if (given(by_hand, option)) return false;
  // Where completions are written, rows are a prompt and a completion long.
  return option != "--seq" || !given(by_hand, "--completion");
}

}  // namespace

std::string assumed(const OptionList& by_hand, const StepConfig& config) {
  std::string text;
  for (const char* option : {"--gpu", "--batch", "--seq", "--framework"}) {
    if (!decides(option, by_hand)) continue;
    const OptionRow& row = *find_option(option);
    text += (text.empty() ? "assumed: " : ", ") + std::string(option) + " " + row.text(config);
    if (option == std::string_view("--framework") && row.is_default(config)) text += plain_loop;
  }
  return text;
}

std::string assumed_lines(const OptionList& by_hand, const StepConfig& config,
                          const reports::Style& style) {
  const std::string text = assumed(by_hand, config);
  return text.empty() ? "" : reports::wrap(text + "\n", style.width);
}

}  // namespace ac_advisor::cli
