#pragma once

#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::model {

/// A configuration as it was found.
struct ModelText {
  std::string text;
  std::string origin;  ///< the file, as errors name it
  std::string name;    ///< in tables
};

/// MODEL of the command line, as `load_model` finds it and `parse_config` reads it. Throws
/// UserError.
[[nodiscard]] ModelText read_model(const std::string& model);

/// What a configuration says of the published weights, and of its positions, for the graph that was
/// captured of it. Throws UserError.
void read_published(const ModelText& config, ModelSpec& spec);

/// Of a configuration whose model type no family plans; ac_advisor/capture/capture.hpp can.
class UnknownArchitecture : public UserError {
 public:
  UnknownArchitecture(const std::string& what, std::string field, std::string about)
      : UserError(what), named(std::move(field)), hint(std::move(about)) {}
  std::string named;  ///< file, field and value
  std::string hint;   ///< "; it has experts"
};

}  // namespace ac_advisor::model
