// Where toml++ was not found when this program was built.
#include <fmt/format.h>

#include "ac_advisor/model/error.hpp"
#include "intake/document.hpp"

namespace ac_advisor::intake {

Node parse_toml(const std::string&, const std::string& path) {
  throw UserError(
      fmt::format("{}: this program was built without toml++ and reads no TOML; install "
                  "libtomlplusplus-dev and build again",
                  path));
}

}  // namespace ac_advisor::intake
