#include "reports/kernel_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace ac_advisor::reports {
namespace {

/// PyTorch's own wrappings of what is computed (2.11: Loops.cuh, Reduce.cuh, MultiTensorApply.cuh).
constexpr std::string_view wrappings[] = {"BinaryFunctor",
                                          "AUnaryFunctor",
                                          "BUnaryFunctor",
                                          "UnaryFunctor",
                                          "gpu_kernel_impl_nocast",
                                          "gpu_kernel",
                                          "gpu_kernel_impl",
                                          "opmath_gpu_kernel",
                                          "binary_internal",
                                          "ReduceOp",
                                          "opmath_gpu_kernel_with_scalars"};

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

std::vector<std::string_view> identifiers(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const auto letter = [&](std::size_t i) {
      return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
    };
    std::size_t end = at;
    while (end < text.size() && letter(end)) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool computes(std::string_view word) {
  if (std::find(std::begin(wrappings), std::end(wrappings), word) != std::end(wrappings))
    return false;
  // sum_functor, CUDAFunctor_add, MeanOps, silu_kernel, direct_copy_kernel_cuda, …_kernel_impl
  for (const std::string_view part : {"Functor", "_functor", "_kernel"})
    if (word.find(part) != std::string_view::npos) return true;
  return word.ends_with("Ops") || word.ends_with("Op");
}

}  // namespace

std::string kernel_name(const std::string& name) {
  std::string text = demangled(name);
  if (text.starts_with("void ")) text.erase(0, 5);
  for (const std::string_view anonymous : {"(anonymous namespace)::", "<unnamed>::"})
    for (std::size_t at; (at = text.find(anonymous)) != std::string::npos;)
      text.erase(at, anonymous.size());
  const std::size_t end = std::min(text.find('<'), text.find('('));
  std::string base = text.substr(0, end);
  const std::size_t space = base.rfind("::");
  if (space != std::string::npos) base.erase(0, space + 2);
  if (base.empty()) return name;
  if (end == std::string::npos || text[end] != '<') return base;
  // The innermost is what is computed.
  std::string_view operation;
  for (const std::string_view word : identifiers(std::string_view(text).substr(end)))
    if (computes(word)) operation = word;
  return operation.empty() ? base : base + " " + std::string(operation);
}

}  // namespace ac_advisor::reports
