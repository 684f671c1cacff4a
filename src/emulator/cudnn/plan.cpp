#include "emulator/cudnn/plan.hpp"

#include <set>

namespace emulator::cudnn {
namespace {

/// The value after each `"key":`, without the quotes of a string. The texts are cuDNN's own,
/// without spaces between tokens and without escapes in what is looked for.
std::vector<std::string> values(const std::string& json, const std::string& key) {
  std::vector<std::string> found;
  const std::string before = "\"" + key + "\":";
  for (auto at = json.find(before); at != std::string::npos; at = json.find(before, at)) {
    at += before.size();
    const char first = at < json.size() ? json[at] : '\0';
    const char* closing = first == '"' ? "\"" : first == '[' ? "]" : first == '{' ? "}" : ",}";
    const std::size_t start = first == '"' || first == '[' || first == '{' ? at + 1 : at;
    const auto end = json.find_first_of(closing, start);
    if (end == std::string::npos) break;
    found.push_back(json.substr(start, end - start));
  }
  return found;
}

/// Whether queries have more heads than keys: the graph's stored 4-d operands (batch, heads, rows,
/// columns; statistics and scalars have one column) then differ in their second dimension.
bool grouped_queries(const std::string& json) {
  std::set<std::string> heads;
  for (const std::string& dim : values(json, "dim")) {
    const auto a = dim.find(','), b = dim.find(',', a + 1), c = dim.find(',', b + 1);
    if (c == std::string::npos || dim.find(',', c + 1) != std::string::npos) continue;
    if (dim.substr(c + 1) == "1") continue;
    heads.insert(dim.substr(a + 1, b - a - 1));
  }
  return heads.size() > 1;
}

}  // namespace

std::vector<std::string> kernels_of_plan(const std::string& json) {
  std::vector<std::string> kernels = values(json, "kernelName");
  if (kernels.empty()) {
    const auto engine = values(json, "engineId"), mode = values(json, "finalizeMode"),
               choices = values(json, "knobChoices");
    kernels.push_back("cudnn engine " + (engine.empty() ? "?" : engine.front()) +
                      (choices.empty() || choices.front().empty() ? "" : " " + choices.front()) +
                      (mode.empty() ? "" : " " + mode.front()));
    return kernels;
  }
  // Around the compiled kernel of attention's backward cuDNN launches precompiled ones, which the
  // plan does not list: in profiles of H100s, once a backward each, the last twice (dK and dV).
  if (kernels.front().find("_bprop_") != std::string::npos) {
    kernels.insert(kernels.begin(), "cudnn::fusion::compute_dot_do_o_specialized");
    kernels.push_back("cudnn::fusion::convert_dq_to_16bits");
    if (grouped_queries(json)) kernels.insert(kernels.end(), 2, "cudnn::fusion::fmha_reduce_head");
  }
  return kernels;
}

}  // namespace emulator::cudnn
