// Where yaml-cpp was not found when this program was built.
#include <fmt/format.h>

#include "ac_advisor/model/error.hpp"
#include "intake/document.hpp"

namespace ac_advisor::intake {

Node parse_document(const std::string&, const std::string& path) {
  throw UserError(
      fmt::format("{}: this program was built without yaml-cpp and reads no training files; "
                  "install libyaml-cpp-dev and build again",
                  path));
}

}  // namespace ac_advisor::intake
