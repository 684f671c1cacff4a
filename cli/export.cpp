#include "ac_advisor/advise/export.hpp"

#include <cstdio>

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"

namespace ac_advisor::cli {

// The text alone is the result, so that it can be a file of the framework's (JSON has no comments);
// the version and the notes are messages.
std::string run_export(const Arguments& a) {
  const std::string target = advise::export_target_of(a.target);
  OptionList options = a.options;
  // Trainer's arguments: what hf exports, with that framework's preset.
  if (target != a.target && !given(options, "--framework"))
    options.emplace_back("--framework", a.target);
  if (a.format != "table")
    throw UserError("export --format " + a.format +
                    ": the text is the framework's own; leave --format out");
  const model::ModelSpec model = load_model(a);
  const StepConfig config = resolve(model, options).config;
  const advise::ExportResult result = advise::export_setting(target, model, config);
  tell_warnings(model, config);
  std::fprintf(stderr, "for %s\n", result.version.c_str());
  for (const std::string& note : result.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  return result.text;
}

}  // namespace ac_advisor::cli
