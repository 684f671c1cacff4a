#include "emulator/cudnn/plan.hpp"

#include <algorithm>
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

struct Operand {
  std::string heads, matrix;  ///< of "batch,heads,rows,columns": the second, and the last two
  bool made_inside = false;   ///< a virtual tensor, such as the scores
};

/// The graph's 4-d tensors of more than one column: statistics and scalars have one.
std::vector<Operand> matrices(const std::string& json) {
  const std::vector<std::string> dims = values(json, "dim"), inside = values(json, "isVirtual");
  std::vector<Operand> found;
  for (std::size_t i = 0; i < dims.size() && i < inside.size(); ++i) {
    const std::string& dim = dims[i];
    const auto a = dim.find(','), b = dim.find(',', a + 1), c = dim.find(',', b + 1);
    if (c == std::string::npos || dim.find(',', c + 1) != std::string::npos) continue;
    if (dim.substr(c + 1) == "1") continue;
    found.push_back({dim.substr(a + 1, b - a - 1), dim.substr(b + 1), inside[i] == "true"});
  }
  return found;
}

/// Whether queries have more heads than keys: the stored operands then differ in their heads. A
/// mask has the scores' rows and columns, and often one head for all: it is no operand in this
/// sense.
bool grouped_queries(const std::string& json) {
  const std::vector<Operand> all = matrices(json);
  std::set<std::string> heads;
  for (const Operand& operand : all) {
    const bool is_mask =
        operand.heads == "1" && std::any_of(all.begin(), all.end(), [&](const Operand& other) {
          return other.made_inside && other.heads != "1" && other.matrix == operand.matrix;
        });
    if (!operand.made_inside && !is_mask) heads.insert(operand.heads);
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
