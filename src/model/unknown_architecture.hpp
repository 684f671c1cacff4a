#pragma once

#include <string>
#include <utility>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::model {

/// Of a configuration whose model type no family plans; ac_advisor/capture/capture.hpp can.
class UnknownArchitecture : public UserError {
 public:
  UnknownArchitecture(const std::string& what, std::string field, std::string about)
      : UserError(what), named(std::move(field)), hint(std::move(about)) {}
  std::string named;  ///< file, field and value
  std::string hint;   ///< "; it has experts"
};

}  // namespace ac_advisor::model
