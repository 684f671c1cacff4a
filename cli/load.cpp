#include "cli/load.hpp"

#include <cstdio>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "model/hub_models.hpp"

namespace ac_advisor::cli {

capture::Settings capture_settings(const Arguments& arguments) {
  capture::Settings settings = arguments.capture;
  settings.tell = [](const std::string& text) {
    std::fprintf(stderr, "ac-advisor: note: %s\n", text.c_str());
  };
  return settings;
}

model::ModelSpec load_model(const Arguments& arguments) {
  if (arguments.positional.at(0) == "-" && (arguments.command == "measure" || arguments.measured))
    throw UserError("measure -: the trainer reads the configuration too; give it as a file");
  // A graph can be neither run by the trainer nor exported.
  if (arguments.command == "measure" || arguments.command == "export" || arguments.measured)
    return model::load_model(arguments.positional.at(0), arguments.as);
  return capture::load_model(arguments.positional.at(0), arguments.as, arguments.options,
                             capture_settings(arguments));
}

void tell_notes(const advise::Resolved& resolved) {
  for (const std::string& note : resolved.notes)
    std::fprintf(stderr, "ac-advisor: note: %s\n", note.c_str());
}

advise::Resolved resolve(const model::ModelSpec& model, const OptionList& options) {
  advise::Resolved resolved = advise::resolve(model, options);
  tell_notes(resolved);
  return resolved;
}

void tell_warnings(const model::ModelSpec& model, const StepConfig& config) {
  for (const std::string& warning : advise::model_warnings(model, config))
    std::fprintf(stderr, "ac-advisor: warning: %s\n", warning.c_str());
  if (model.reading.as)
    std::fprintf(stderr, "ac-advisor: note: %s\n", model::reading_note(model).c_str());
  if (const std::string note = model::built_in_note(model); !note.empty())
    std::fprintf(stderr, "ac-advisor: note: %s\n", note.c_str());
}

}  // namespace ac_advisor::cli
