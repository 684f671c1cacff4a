// How many processes a launcher starts: torchrun, accelerate launch, deepspeed, and what swift's
// command reads from the environment (swift/cli/main.py, get_torchrun_args).
#include <fmt/format.h>

#include <algorithm>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

constexpr const char* launcher_keys[] = {"--num_processes", "--include",  "--nproc_per_node",
                                         "--nnodes",        "--num_gpus", "--num_nodes",
                                         "NPROC_PER_NODE",  "NNODES"};

/// deepspeed --include localhost:0,1@other:0: the devices that it names.
std::int64_t devices_of(const std::string& include) {
  std::int64_t devices = 0;
  for (std::size_t at = 0; at < include.size();) {
    const std::size_t end = std::min(include.find('@', at), include.size());
    const std::string host = include.substr(at, end - at);
    if (const std::size_t colon = host.find(':'); colon != std::string::npos)
      devices += 1 + std::count(host.begin() + static_cast<std::ptrdiff_t>(colon), host.end(), ',');
    at = end + 1;
  }
  return devices;
}

}  // namespace

std::int64_t read_launcher(Keys& keys) {
  const auto set = [&](const char* key) {
    return keys.in_file(key) && !keys.left_open(key, "--world");
  };
  if (set("--num_processes")) return keys.count("--num_processes", 1);
  if (set("--include")) {
    const std::int64_t devices = devices_of(keys.text("--include").value_or(""));
    if (devices > 0) return devices;
    static_cast<void>(keys.unplanned("--include", "its devices are not read; give --world N"));
  }
  for (const auto& [each, nodes] :
       {std::pair{"--nproc_per_node", "--nnodes"}, std::pair{"--num_gpus", "--num_nodes"},
        std::pair{"NPROC_PER_NODE", "NNODES"}}) {
    const bool of_each = set(each), of_nodes = set(nodes);
    if (!of_each && !of_nodes) continue;
    const std::int64_t ranks =
        (of_each ? keys.count(each, 1) : 1) * (of_nodes ? keys.count(nodes, 1) : 1);
    if (ranks > most_count)
      keys.refuse(each, fmt::format("is from 1 to {}, by all nodes", most_count));
    return ranks;
  }
  return 0;
}

void set_world(Keys& keys, std::int64_t ranks, std::string_view otherwise) {
  const auto* const by =
      std::ranges::find_if(launcher_keys, [&](const char* key) { return keys.in_file(key); });
  keys.option(by == std::end(launcher_keys) ? otherwise : *by, "--world", std::to_string(ranks));
}

std::int64_t read_ranks(Keys& keys, const char* key, const std::string& why) {
  std::int64_t world = keys.world();
  if (const std::int64_t started = read_launcher(keys); world == 0 && started > 0) {
    set_world(keys, started, key);
    world = started;
  }
  if (world == 0) keys.refuse(key, why);
  return world;
}

}  // namespace ac_advisor::intake
