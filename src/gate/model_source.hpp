#pragma once

#include <map>
#include <string>

#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/gate/gate_file.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::gate {

/// A case's model, with what its config.json says in its own words.
struct ModelSource {
  model::ModelSpec spec;
  std::map<std::string, std::string> fields;  ///< those that a figure of the model comes from
  std::string path;                           ///< of the config.json; empty: a built-in model
};

/// Throws UserError where it is missing or wrong.
[[nodiscard]] ModelSource load_model_source(const GateFile& file, const Case& c,
                                            const capture::Settings& capture);
/// Whether that starts a program, which only the main thread may.
[[nodiscard]] bool needs_capture(const GateFile& file, const Case& c,
                                 const capture::Settings& capture);

/// Of a config.json's text; those of nested objects with their path, "text_config.hidden_size".
[[nodiscard]] std::map<std::string, std::string> read_model_fields(const std::string& text);

/// Fields of config.json that the figure (`profile::model_fields`) may come from, separated by
/// spaces; empty for an unknown one.
[[nodiscard]] const char* sources_of(const std::string& figure);

}  // namespace ac_advisor::gate
