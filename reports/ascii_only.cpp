// For terminals whose locale has no UTF-8.
#include <array>
#include <string_view>

#include "reports/grid.hpp"

namespace ac_advisor::reports {
namespace {

struct Replacement {
  std::string_view character;
  char ascii;
};
constexpr std::array<Replacement, 16> replacements = {{{"▁", '_'},
                                                       {"▂", '.'},
                                                       {"▃", ':'},
                                                       {"▄", '-'},
                                                       {"▅", '='},
                                                       {"▆", '+'},
                                                       {"▇", '*'},
                                                       {"█", '#'},
                                                       {"…", '~'},
                                                       {"×", 'x'},
                                                       {"·", '.'},
                                                       {"–", '-'},
                                                       {"—", '-'},
                                                       {"µ", 'u'},
                                                       {"✓", '+'},
                                                       {"✗", 'x'}}};

char ascii_of(std::string_view character) {
  if (character.size() == 1) return character.front();
  for (const Replacement& r : replacements)
    if (r.character == character) return r.ascii;
  return '?';
}

}  // namespace

std::string ascii_only(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    out += ascii_of(std::string_view(text).substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace ac_advisor::reports
