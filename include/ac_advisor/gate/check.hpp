#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/gate/baseline.hpp"
#include "ac_advisor/gate/verdict.hpp"
#include "ac_advisor/intake/training.hpp"

namespace ac_advisor::gate {

struct Settings {
  Date today;
  std::vector<std::string> only;  ///< names of cases; empty: all
  bool tighten = false;           ///< a case below its baseline says what the new one would be
  capture::Settings capture;      ///< of models without a family
};

/// Plans (or reads) every case and judges it. What is wrong with one case is its verdict, and the
/// others are judged all the same. Throws UserError for a name of `only` that is no case.
[[nodiscard]] Report check(const GateFile& file, const Settings& settings);

/// A baseline file as it should become.
struct Rewrite {
  std::string path, text;
  std::string message;   ///< "llama-1b: peak_allocated 30.178 GiB → 30.012 GiB"
  bool changed = false;  ///< against the file that is there
};
struct Update {
  std::vector<Rewrite> rewrites;  ///< one a case that limits a regression
  Report problems;                ///< cases that could not be planned or read
};
[[nodiscard]] Update update(const GateFile& file, const std::vector<std::string>& only,
                            const capture::Settings& capture = {});

/// What a first file's case is of. Without `model`: the config.json beside the file if there is
/// one, else a sample; without both, with options to begin with.
struct FirstCase {
  std::string model, as;
  OptionList options;
  capture::Settings capture;
};
/// A first file: one case with a budget and an allowed regression. `origin`: where it will be
/// written; a path to a model is written relative to it.
[[nodiscard]] std::string first_gate_file(const std::string& origin, const FirstCase& first = {});

/// One case against its baseline; nothing is read here. `model_path`: of the model's file, may be
/// empty. `training`: where the case is of another tool's file; null: it is not. Exposed for tests
/// and fuzzing; `check` calls it.
[[nodiscard]] std::vector<Verdict> judge(const GateFile& file, const Case& c, const Baseline& now,
                                         const std::optional<Baseline>& base,
                                         const Settings& settings,
                                         const std::string& model_path = {},
                                         const intake::Training* training = nullptr);

}  // namespace ac_advisor::gate
