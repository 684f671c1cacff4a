#pragma once

#include <cstddef>
#include <utility>

#include "ac_advisor/ir/attributes.hpp"

namespace ac_advisor::ir {

/// Stands for a field of any type, to count those of an aggregate.
struct AnyField {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <typename A, std::size_t... i>
constexpr bool has_fields(std::index_sequence<i...>) {
  return requires { A{((void)i, AnyField{})...}; };
}
template <typename A, std::size_t n = 6>
constexpr std::size_t field_count() {
  if constexpr (n == 0)
    return 0;
  else
    return has_fields<A>(std::make_index_sequence<n>()) ? n : field_count<A, n - 1>();
}

/// Calls `f` with each number of an attributes' struct, those of structs in it too.
template <typename A, typename F>
void for_each_field(A& a, const F& f) {
  using Plain = std::remove_const_t<A>;
  if constexpr (std::is_arithmetic_v<Plain> || std::is_enum_v<Plain>) {
    f(a);
  } else {
    constexpr std::size_t fields = field_count<Plain>();
    const auto each = [&](auto&... field) { (for_each_field(field, f), ...); };
    if constexpr (fields == 1) {
      auto& [a1] = a;
      each(a1);
    } else if constexpr (fields == 2) {
      auto& [a1, a2] = a;
      each(a1, a2);
    } else if constexpr (fields == 3) {
      auto& [a1, a2, a3] = a;
      each(a1, a2, a3);
    } else if constexpr (fields == 4) {
      auto& [a1, a2, a3, a4] = a;
      each(a1, a2, a3, a4);
    } else if constexpr (fields == 5) {
      auto& [a1, a2, a3, a4, a5] = a;
      each(a1, a2, a3, a4, a5);
    } else if constexpr (fields == 6) {
      auto& [a1, a2, a3, a4, a5, a6] = a;
      each(a1, a2, a3, a4, a5, a6);
    }
  }
}

}  // namespace ac_advisor::ir
