#pragma once

#include "cli/arguments.hpp"

/// One function a subcommand; each returns the text of its result and throws UserError.
namespace ac_advisor::cli {

[[nodiscard]] std::string run_plan(const Arguments& arguments);
[[nodiscard]] std::string run_advise(const Arguments& arguments);
[[nodiscard]] std::string run_compare(const Arguments& arguments);
[[nodiscard]] std::string run_explain(const Arguments& arguments);
[[nodiscard]] std::string run_export(const Arguments& arguments);
/// Writes its own file; also throws NotMeasured.
void run_trace(const Arguments& arguments);
[[nodiscard]] std::string run_diagnose(const Arguments& arguments);
[[nodiscard]] std::string run_doctor(const Arguments& arguments);
[[nodiscard]] std::string run_models();
[[nodiscard]] std::string run_devices();

}  // namespace ac_advisor::cli
