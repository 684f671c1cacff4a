// Whatever the bytes of a saved file, they are refused with a UserError or rendered in every
// format; what is read is written as what is read.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/page.hpp"

namespace {

using namespace ac_advisor;

std::string json_of(const reports::Document& document) {
  return std::visit([](const auto& value) { return reports::json(value); }, document.value);
}

void render(const reports::Document& document) {
  std::visit(
      [](const auto& value) {
        static_cast<void>(reports::table(value, {}));
        static_cast<void>(reports::csv(value));
        if (reports::markdown(value).size() >= 65'536) __builtin_trap();
      },
      document.value);
  const std::string html = reports::html({{document, document}, {}, ""});
  // No tag of the input's: the page has two scripts, one style and no other element that loads.
  std::size_t scripts = 0;
  for (std::size_t at = html.find("<script"); at != std::string::npos;
       at = html.find("<script", at + 1))
    ++scripts;
  if (scripts != 2 || html.find("<img") != std::string::npos) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  try {
    const reports::Document document = reports::read_document(text, "fuzz.json");
    render(document);
    const std::string written = json_of(document);
    if (json_of(reports::read_document(written, "written.json")) != written) __builtin_trap();
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
