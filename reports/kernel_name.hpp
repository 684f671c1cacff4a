#pragma once

#include <string>

namespace ac_advisor::reports {

/// What a person calls a kernel: "elementwise_kernel MulFunctor" of the mangled or demangled name
/// of at::native::elementwise_kernel<…MulFunctor<float>…>(…). Without namespaces, types and
/// arguments; another name is itself.
[[nodiscard]] std::string kernel_name(const std::string& name);

}  // namespace ac_advisor::reports
