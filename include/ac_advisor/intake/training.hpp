#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"

/// Training configurations of other tools, read into this program's options: the file that its user
/// trains with.
namespace ac_advisor::intake {

/// One key of the file, or one that the tool fills in.
struct Mapping {
  std::string key, value;
  int line = 0;         ///< in the file; 0: absent there, the tool's default
  std::string options;  ///< "--batch 4"; empty: it is what the tool's preset or ours has anyway
  std::string source;   ///< of a default: file and version
};

struct Training {
  std::string tool;     ///< "trl"
  std::string version;  ///< that its defaults were read in
  std::string path;
  std::string model;      ///< MODEL as the file names it; empty: it names none
  std::string model_key;  ///< "model_name_or_path"
  std::string config;     ///< the model's config.json, where the file's own keys are its sizes
  std::string flavor_of;  ///< the framework whose table has it as "model/name"; empty: none has
  OptionList options;
  std::vector<Mapping> mapping;        ///< in the order in which they were asked for
  std::vector<std::string> no_effect;  ///< keys of the file that change neither memory nor launches
  std::vector<std::string> unknown;    ///< "lenght (line 3); did you mean max_length?"
  std::vector<std::string> assumptions;  ///< what the file leaves open
};

struct Request {
  std::string path;
  std::string tool;                 ///< empty: told by its keys
  OptionList given;                 ///< options by hand, which win
  std::vector<std::string> ignore;  ///< keys that matter, are not planned, and are to be left out
  std::string model;                ///< MODEL by hand, in place of the file's
  const model::ModelSpec* spec = nullptr;  ///< of the model, where it is read already
};

/// The tools, in the order in which they are tried.
[[nodiscard]] std::vector<std::string_view> tool_names();
/// Whether MODEL is a training file: a name that ends in .yaml, .yml, .toml or .sh.
[[nodiscard]] bool is_training_file(std::string_view model);
/// Throws UserError naming file, line, key and value: what cannot be read, values that the tool
/// refuses, and keys that change the step in a way that is not planned.
[[nodiscard]] Training read_training(const Request& request);
/// The same of a file's text; its name, in `request.path`, says whether it is TOML or a script.
[[nodiscard]] Training read_training(const Request& request, const std::string& text);

}  // namespace ac_advisor::intake
