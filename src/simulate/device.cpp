#include "ac_advisor/simulate/device.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "embedded/embedded.hpp"

namespace ac_advisor::simulate {
namespace {

using nlohmann::json;
constexpr std::string_view folder = "devices/", suffix = ".json";

/// Figures are objects {"value", "source", "estimate"}; `path` is dotted.
class Figures {
 public:
  Figures(const json& root, const std::string& origin) : root_(root), origin_(origin) {}

  [[nodiscard]] const json& at(const std::string& path) const {
    const json* node = &root_;
    std::size_t begin = 0;
    while (begin <= path.size()) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      const std::string key = path.substr(begin, end - begin);
      if (!node->is_object() || !node->contains(key))
        throw UserError(origin_ + ": \"" + path + "\" is missing");
      node = &(*node)[key];
      begin = end + 1;
    }
    return node->is_object() && node->contains("value") ? (*node)["value"] : *node;
  }
  [[nodiscard]] double number(const std::string& path) const {
    const json& value = at(path);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      throw UserError(origin_ + ": \"" + path + "\" must be a number of at least 0");
    return value.get<double>();
  }
  [[nodiscard]] std::int64_t integer(const std::string& path) const {
    return static_cast<std::int64_t>(number(path));
  }
  [[nodiscard]] std::string text(const std::string& path) const {
    const json& value = at(path);
    if (!value.is_string()) throw UserError(origin_ + ": \"" + path + "\" must be a string");
    return value.get<std::string>();
  }
  /// 90 of "9.0".
  [[nodiscard]] std::int64_t capability(const std::string& path) const {
    const std::string value = text(path);
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (end == value.c_str() || *end != '\0' || !(number >= 0 && number < 100))
      throw UserError(origin_ + ": \"" + path + "\" must be like \"9.0\"");
    return static_cast<std::int64_t>(number * 10.0 + 0.5);
  }

 private:
  const json& root_;
  const std::string& origin_;
};

std::string name_of(std::string_view path) {
  return std::string(path.substr(folder.size(), path.size() - folder.size() - suffix.size()));
}

std::string read_file(const std::string& path) {
  constexpr std::size_t most = std::size_t{16} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (char part[1 << 16]; file.read(part, sizeof part), file.gcount() > 0;) {
    text.append(part, static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) throw UserError("--gpu " + path + ": larger than 16 MiB");
  }
  if (!file.eof())
    throw UserError("--gpu " + path +
                    ": cannot be read; give a device file, such as ac-advisor calibrate writes");
  return text;
}

bool is_device(const embedded::File& file) {
  return file.path.starts_with(folder) && file.path.ends_with(suffix);
}

}  // namespace

Device parse_device(const std::string& text, const std::string& origin) {
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded() || !root.is_object()) throw UserError(origin + ": not a JSON object");
  const Figures f(root, origin);
  Device d;
  d.name = f.text("name");
  d.title = f.text("title");
  const std::string kind = f.text("kind");
  if (kind != "cpu" && kind != "gpu")
    throw UserError(origin + ": \"kind\" must be \"cpu\" or \"gpu\"");
  d.cuda = kind == "gpu";
  d.memory_bytes = f.integer("memory_bytes");
  d.usable_bytes = f.integer("usable_bytes");
  d.context_bytes = f.integer("context_bytes");
  d.cublas_workspace_bytes = f.integer("cublas_workspace_bytes");
  d.bandwidth = f.number("bandwidth_bytes_per_second");
  d.bf16_flops = f.number("peak_flops_per_second.bf16");
  d.fp32_flops = f.number("peak_flops_per_second.fp32");
  d.l2_bytes = f.integer("l2_bytes");
  d.sm_count = f.integer("sm_count");
  d.compute_capability = f.capability("compute_capability");
  d.link_bandwidth = f.number("link.bandwidth_bytes_per_second");
  d.forward_op_seconds = f.number("host.forward_op_seconds");
  d.backward_op_seconds = f.number("host.backward_op_seconds");
  d.fused_op_seconds = f.number("host.fused_op_seconds");
  d.graph_launch_seconds = f.number("host.graph_launch_seconds");
  d.kernel_floor_seconds = f.number("kernel_floor_seconds");
  d.matmul_asymptote = f.number("efficiency.matmul.asymptote");
  d.matmul_tile_m = f.number("efficiency.matmul.tile_m");
  d.matmul_tile_n = f.number("efficiency.matmul.tile_n");
  d.matmul_k_half = f.number("efficiency.matmul.k_half");
  d.attention_forward = f.number("efficiency.attention.forward");
  d.attention_backward = f.number("efficiency.attention.backward");
  d.pointwise_bandwidth = f.number("efficiency.pointwise.bandwidth_fraction");
  d.reduction_bandwidth = f.number("efficiency.reduction.bandwidth_fraction");
  d.embedding_bandwidth = f.number("efficiency.embedding.bandwidth_fraction");
  d.collective_bandwidth = f.number("efficiency.collective.bandwidth_fraction");
  d.collective_latency = f.number("efficiency.collective.latency_seconds");
  if (root.contains("measurements"))
    d.measured = std::make_shared<const Measurements>(
        read_measurements(root["measurements"].dump(), origin));
  return d;
}

std::string device_file(const std::string& name) {
  for (const embedded::File& file : embedded::files()) {
    if (!is_device(file)) continue;
    bool wanted = name_of(file.path) == name;
    if (!wanted && file.text.find('"' + name + '"') != std::string_view::npos) {
      const json root = json::parse(file.text, nullptr, false);
      for (const json& alias : root.value("aliases", json::array()))
        wanted = wanted || alias == name;
    }
    if (wanted) return std::string(file.text);
  }
  std::string list;
  for (const std::string& device : device_names()) list += (list.empty() ? "" : ", ") + device;
  throw UserError("--gpu " + name + ": not known; known are " + list +
                  ", and the path of a device file (ac-advisor calibrate writes one)");
}

const Device& find_device(const std::string& name) {
  // Parsed once a process: a sweep asks for the same device a thousand times.
  static std::mutex mutex;
  static std::map<std::string, Device> known;
  const std::lock_guard lock(mutex);
  if (const auto it = known.find(name); it != known.end()) return it->second;
  const bool path = name.find('/') != std::string::npos || name.ends_with(suffix);
  const Device device = parse_device(path ? read_file(name) : device_file(name),
                                     path ? "--gpu " + name : std::string(folder) + name);
  return known.emplace(name, device).first->second;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::files())
    if (is_device(file)) names.push_back(name_of(file.path));
  return names;
}

}  // namespace ac_advisor::simulate
