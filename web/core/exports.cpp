// What JavaScript calls.
#include <emscripten.h>

#include <string>

#include "answer.hpp"

// clang-format off
EM_JS(void, tell_progress, (int done, int of), {
  if (Module.progress) Module.progress(done, of);
})
// clang-format on

/// `request` and the result are UTF-8 that ends in 0; the result is valid until the next call.
extern "C" const char* answer(const char* request) {
  static std::string text;
  text = ac_advisor::web::answer(request, [](std::size_t done, std::size_t of) {
    tell_progress(static_cast<int>(done), static_cast<int>(of));
  });
  return text.c_str();
}
