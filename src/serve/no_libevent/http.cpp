// Built without libevent.
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/serve/serve.hpp"

namespace ac_advisor::serve {

void listen(std::uint16_t, const std::function<std::string()>&,
            const std::function<void(std::uint16_t port)>&) {
  throw UserError(
      "serve: this program was built without libevent (Debian's libevent-dev), which serves; the "
      "page "
      "itself opens without: `ac-advisor generate page --output page.html`");
}

}  // namespace ac_advisor::serve
