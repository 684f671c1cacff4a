#include "ac_advisor/simulate/device.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "device_figures.hpp"
#include "embedded/embedded.hpp"
#include "files/fingerprint.hpp"
#include "json/node.hpp"
#include "memory_device.hpp"

namespace ac_advisor::simulate {
namespace {

using nlohmann::json;
constexpr std::string_view folder = "devices/", suffix = ".json";
constexpr json::error_handler_t replace =
    json::error_handler_t::replace;  ///< text that is no UTF-8

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

AttentionRate attention_rate(const Figures& f, const std::string& path) {
  return {f.number(path + ".forward", fraction), f.number(path + ".backward", fraction),
          f.number_or(path + ".half_tokens", length, 0),
          f.number_or(path + ".head_64", fraction, 1)};
}

/// Kinds by the op table's names, as PyTorch dispatches them.
void read_kinds(const Figures& f, Device& d) {
  if (!f.has("efficiency.kinds")) return;
  for (const auto& [name, figure] : f.at("efficiency.kinds").items()) {
    const std::string path = "efficiency.kinds." + name;
    bool known = false;
    for (const ir::OpRow& row : ir::op_table())
      if (name == row.name) {
        d.kind_bandwidth[static_cast<std::size_t>(row.kind)] =
            f.number(path + ".bandwidth_fraction", fraction);
        known = true;
      }
    if (!known) f.refuse(path, "named as an op of the op table, such as \"rms_norm\"");
  }
}

/// Paths of what holds a figure or a word; kinds and measurements are checked where they are read.
void collect_fields(const json& object, const std::string& prefix, std::set<std::string>& fields) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    const bool leaf = !value.is_object() || value.contains("value");
    if (leaf)
      fields.insert(path);
    else if (path != "measurements" && path != "efficiency.kinds")
      collect_fields(value, path + ".", fields);
  }
}

/// All that a device file may say is said by one that is built in.
void refuse_unknown_fields(const json& root, const std::string& origin) {
  static const std::set<std::string> known = [] {
    std::set<std::string> all;
    for (const embedded::File& file : embedded::files())
      if (is_device(file)) collect_fields(json::parse(file.text), "", all);
    return all;
  }();
  std::set<std::string> fields;
  collect_fields(root, "", fields);
  for (const std::string& field : fields)
    if (!known.contains(field))
      throw UserError(origin + ": \"" + field +
                      "\" is no field of a device file; leave it out, or give it the name that it "
                      "has in data/devices/README.md");
}

/// Throws UserError with line and column; NaN and Infinity are no JSON either.
json parse_object(const std::string& text, const std::string& origin) {
  static_cast<void>(ac_advisor::json::parse_document(text, origin));
  return json::parse(text);
}

/// What a file says without its sources, titles and names: the same figures in any order.
json figures_alone(const json& node) {
  if (!node.is_object()) return node;
  if (node.contains("value")) return node["value"];
  json out = json::object();
  for (const auto& [key, value] : node.items())
    if (key != "name" && key != "title" && key != "aliases" && key != "source")
      out[key] = figures_alone(value);
  return out;
}

/// Bytes of "24GiB", "24gb" and "24g"; a GPU's GB are GiB.
std::optional<double> size_in(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit(end);
  for (char& c : unit) c = static_cast<char>(c | 0x20);
  if (end == text.c_str() || (unit != "gib" && unit != "gb" && unit != "g")) return std::nullopt;
  return number * (1 << 30);
}

Device read_device(const json& root, const std::string& origin) {
  const Figures f(root, origin);
  Device d;
  d.name = f.text("name");
  d.title = f.text("title");
  const std::string kind = f.text("kind");
  if (kind != "cpu" && kind != "gpu") f.refuse("kind", "\"cpu\" or \"gpu\"");
  d.cuda = kind == "gpu";
  d.memory_bytes = f.integer("memory_bytes", some_bytes);
  d.usable_bytes = f.integer("usable_bytes", some_bytes);
  if (d.usable_bytes > d.memory_bytes)
    f.refuse("usable_bytes", "at most memory_bytes, " + std::to_string(d.memory_bytes));
  d.context_bytes = f.integer("context_bytes", any_bytes);
  d.cublas_workspace_bytes = f.integer("cublas_workspace_bytes", any_bytes);
  d.l2_bytes = f.integer("l2_bytes", any_bytes);
  d.sm_count = f.integer("sm_count", some);
  d.compute_capability = f.capability("compute_capability");
  const auto number = [&](const char* path, const Range& range, double& figure) {
    figure = f.number(path, range);
  };
  number("bandwidth_bytes_per_second", per_second, d.bandwidth);
  number("peak_flops_per_second.bf16", per_second, d.bf16_flops);
  number("peak_flops_per_second.fp32", per_second, d.fp32_flops);
  number("link.bandwidth_bytes_per_second", per_second, d.link_bandwidth);
  number("host.forward_op_seconds", seconds_of_one, d.forward_op_seconds);
  number("host.backward_op_seconds", seconds_of_one, d.backward_op_seconds);
  number("host.fused_op_seconds", seconds_of_one, d.fused_op_seconds);
  number("host.graph_launch_seconds", seconds_of_one, d.graph_launch_seconds);
  number("kernel_floor_seconds", seconds_of_one, d.kernel_floor_seconds);
  number("efficiency.matmul.asymptote", fraction, d.matmul_asymptote);
  number("efficiency.matmul.tile_m", tile, d.matmul_tile_m);
  number("efficiency.matmul.tile_n", tile, d.matmul_tile_n);
  number("efficiency.matmul.k_half", length, d.matmul_k_half);
  number("efficiency.pointwise.bandwidth_fraction", fraction, d.pointwise_bandwidth);
  number("efficiency.reduction.bandwidth_fraction", fraction, d.reduction_bandwidth);
  number("efficiency.embedding.bandwidth_fraction", fraction, d.embedding_bandwidth);
  number("efficiency.collective.bandwidth_fraction", fraction, d.collective_bandwidth);
  number("efficiency.collective.latency_seconds", seconds_of_one, d.collective_latency);
  const auto optional = [&](const char* path, const Range& range, double& figure) {
    figure = f.number_or(path, range, figure);
  };
  optional("peak_flops_per_second.fp8", per_second, d.fp8_flops);
  if (d.cuda) {
    optional("pcie_bytes_per_second", per_second, d.host_bandwidth);
    optional("efficiency.host_copy.bandwidth_fraction", fraction, d.host_copy_bandwidth);
  }
  optional("host.region_seconds", seconds_of_one, d.region_seconds);
  optional("host.saved_hook_seconds", seconds_of_one, d.saved_hook_seconds);
  optional("host.gather_seconds", seconds_of_one, d.gather_seconds);
  optional("host.step_seconds", seconds_of_one, d.step_seconds);
  optional("efficiency.matmul.half_tile", fraction, d.matmul_half_tile);
  optional("efficiency.matmul.fp8_share", fraction, d.matmul_fp8_share);
  optional("efficiency.spread", spread_range, d.spread);
  optional("efficiency.pointwise.strided_elements_per_second", per_second, d.strided_elements);
  optional("efficiency.collective.all_reduce_fraction", fraction, d.all_reduce_bandwidth);
  optional("network.bandwidth_bytes_per_second", per_second, d.network_bandwidth);
  optional("network.gather_fraction", fraction, d.network_gather);
  optional("network.reduce_fraction", fraction, d.network_reduce);
  if (f.has("efficiency.collective.multiprocessors"))
    d.collective_sms = f.integer("efficiency.collective.multiprocessors", count);
  if (d.collective_sms >= d.sm_count)
    f.refuse("efficiency.collective.multiprocessors",
             "below sm_count, " + std::to_string(d.sm_count));
  if (f.has("node_size")) d.node_size = f.integer("node_size", some);
  // Of one kernel where a file tells no backends apart, as those of calibrate's first version.
  d.flash = d.cudnn = d.flash1 = attention_rate(f, "efficiency.attention");
  if (f.has("efficiency.attention.cudnn"))
    d.cudnn = attention_rate(f, "efficiency.attention.cudnn");
  d.has_flash1 = f.has("efficiency.attention.flash1");
  if (d.has_flash1) d.flash1 = attention_rate(f, "efficiency.attention.flash1");
  read_kinds(f, d);
  if (root.contains("measurements"))
    d.measured = std::make_shared<const Measurements>(
        read_measurements(root["measurements"].dump(-1, ' ', false, replace), origin));
  return d;
}

}  // namespace

Device parse_device(const std::string& text, const std::string& origin) {
  const json root = parse_object(text, origin);
  Device device = read_device(root, origin);
  device.figures = files::fingerprint(figures_alone(root).dump(-1, ' ', false, replace));
  refuse_unknown_fields(root, origin);
  return device;
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
  throw UserError(
      "--gpu " + name + ": unknown GPU; available: " + list +
      ", memory alone (24GiB), and the path of a device file (ac-advisor calibrate writes one)");
}

namespace {

/// The GPU whose memory is nearest to `bytes`; of equals the fastest.
std::string nearest_in_memory(double bytes) {
  std::string best;
  double least = 0, flops = 0;
  for (const std::string& name : device_names()) {
    const Device& d = find_device(name);
    if (!d.cuda) continue;
    const double off = std::abs(std::log(static_cast<double>(d.memory_bytes) / bytes));
    constexpr double equal = 0.02;  // 80 GB and 80 GiB
    if (!best.empty() && (off > least + equal || (off > least - equal && d.bf16_flops <= flops)))
      continue;
    best = name;
    least = off;
    flops = d.bf16_flops;
  }
  return best;
}

/// What stands before @ in "24gib@l4", in bytes; none where it is no size.
std::optional<double> memory_in(const std::string& name) {
  const auto bytes = size_in(name.substr(0, name.find('@')));
  constexpr double least = 1.0 * (1 << 30), most = 4096.0 * (1 << 30);
  if (bytes && !(*bytes >= least && *bytes <= most))
    throw UserError("--gpu " + name + ": memory from 1GiB to 4096GiB, such as 24GiB");
  return bytes;
}

Device device_of_memory(const std::string& name) {
  Device device = find_device(rates_of(name));
  const std::int64_t bytes = static_cast<std::int64_t>(*memory_in(name));
  device.title = name.substr(0, name.find('@')) + ", rates of " + device.title;
  device.name = name;
  // What the driver keeps is taken to grow with the memory.
  device.usable_bytes = static_cast<std::int64_t>(static_cast<double>(device.usable_bytes) *
                                                  static_cast<double>(bytes) /
                                                  static_cast<double>(device.memory_bytes));
  device.memory_bytes = bytes;
  return device;
}

}  // namespace

std::string rates_of(const std::string& name) {
  const auto bytes = memory_in(name);
  if (!bytes) return {};
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return nearest_in_memory(*bytes);
  const std::string lender = name.substr(at + 1);
  const Device& device = find_device(lender);
  if (!device.cuda || size_in(lender))
    throw UserError("--gpu " + name + ": after @ comes a GPU's name (see ac-advisor devices)");
  return device.name;
}

const Device& find_device(const std::string& name) {
  // Parsed once a process: a sweep asks for the same device a thousand times.
  static std::recursive_mutex mutex;  // a device of a memory asks for all others
  static std::map<std::string, Device> known;
  const std::lock_guard lock(mutex);
  if (const auto it = known.find(name); it != known.end()) return it->second;
  const bool path = name.find('/') != std::string::npos || name.ends_with(suffix);
  if (!path && !rates_of(name).empty())
    return known.emplace(name, device_of_memory(name)).first->second;
  const Device device =
      path ? parse_device(read_file(name), "--gpu " + name)
           : read_device(json::parse(device_file(name)), std::string(folder) + name);
  return known.emplace(name, device).first->second;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::files())
    if (is_device(file)) names.push_back(name_of(file.path));
  return names;
}

}  // namespace ac_advisor::simulate
