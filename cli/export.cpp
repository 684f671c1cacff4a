#include "ac_advisor/advise/export.hpp"

#include "cli/commands.hpp"

namespace ac_advisor::cli {

std::string run_export(const Arguments& a) {
  const model::ModelSpec model = model::load_model(a.positional.at(0), a.as);
  const advise::ExportResult result =
      advise::export_setting(a.target, model, resolve_options(a.options));
  std::string text = "# " + result.target + " " + result.version + "\n" + result.text;
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (const std::string& note : result.notes) text += "# note: " + note + "\n";
  return text;
}

}  // namespace ac_advisor::cli
