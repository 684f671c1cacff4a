// What libfmt would bring: the host's is no WebAssembly. Not FMT_HEADER_ONLY, which would have
// every file compile it.
#include <fmt/format-inl.h>

template char fmt::detail::decimal_point_impl(locale_ref);
template auto fmt::detail::thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
