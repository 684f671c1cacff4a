// What libfmt exports, for a program that is not to load it (AC_ADVISOR_STATIC). Compiled such that
// inline functions are kept, which is what these are without the library.
#define FMT_HEADER_ONLY
#include <fmt/format.h>
