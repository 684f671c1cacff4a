#pragma once

#include "cli/arguments.hpp"

/// One function a subcommand; each returns the text of its result and throws UserError.
namespace ac_advisor::cli {

/// Text for stdout or --output, and the exit code of a command that judges.
struct Result {
  std::string text;
  int exit_code = 0;
  bool told_elsewhere = false;  ///< by another rank, whose file may be this one's
};

[[nodiscard]] Result run_plan(const Arguments& arguments);
[[nodiscard]] std::string run_advise(const Arguments& arguments);
[[nodiscard]] std::string run_compare(const Arguments& arguments);
[[nodiscard]] std::string run_report(const Arguments& arguments);
[[nodiscard]] std::string run_explain(const Arguments& arguments);
[[nodiscard]] std::string run_export(const Arguments& arguments);
[[nodiscard]] Result run_check(const Arguments& arguments);
[[nodiscard]] Result run_measure(const Arguments& arguments);
[[nodiscard]] Result run_measured_sweep(const Arguments& arguments);
/// `trace FILE…`: what was recorded.
[[nodiscard]] std::string run_read_trace(const Arguments& arguments);
/// Writes its own text or file; the exit code is the program's. Also throws NotMeasured.
[[nodiscard]] Result run_dryrun(const Arguments& arguments);
/// `import -- python -m ac_advisor.capture …`; the exit code is the program's. Also throws
/// NotMeasured.
[[nodiscard]] Result run_import(const Arguments& arguments);
/// `trace -- CMD…`. Writes its own file; also throws NotMeasured.
void run_trace(const Arguments& arguments);
/// Writes its own file; the text is what was measured. Also throws NotMeasured.
[[nodiscard]] Result run_calibrate(const Arguments& arguments);
[[nodiscard]] std::string run_diagnose(const Arguments& arguments);
[[nodiscard]] std::string run_snapshot(const Arguments& arguments);
[[nodiscard]] std::string run_oom(const Arguments& arguments);
[[nodiscard]] std::string run_doctor(const Arguments& arguments);
/// Until it is ended; a result there is none.
[[nodiscard]] std::string run_serve(const Arguments& arguments);
[[nodiscard]] std::string run_generate(const Arguments& arguments);
[[nodiscard]] std::string run_models(const Arguments& arguments);
[[nodiscard]] std::string run_devices();
[[nodiscard]] std::string run_frameworks();

}  // namespace ac_advisor::cli
