#pragma once

namespace ac_advisor::test {

/// Whether the tests run under AddressSanitizer, ten times as slow: what repeats the same code with
/// other numbers may do so less often.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace ac_advisor::test
