#include "trainer/checkpoint.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::trainer {
namespace {

std::string file_of(const Rank& rank, const std::string& folder) {
  return fmt::format("{}/rank{}.safetensors", folder, rank.rank());
}

/// What decides how state is laid out and how the run goes on.
std::map<std::string, std::string> description(const Built& built) {
  const StepConfig& c = built.config;
  std::string model = built.spec.name;
  if (c.adapters.used())
    model += fmt::format(" with --lora {} --quantize {}{}", c.adapters.rank,
                         to_option(c.adapters.quantize), c.adapters.dora ? " --dora" : "");
  if (c.compression.used()) model += " with --grad-compression " + compression_option(c);
  std::string layout = shard_option(c);
  if (c.layout.tp > 1) layout += fmt::format(" --tp {}", c.layout.tp);
  if (c.layout.pp > 1)
    layout += fmt::format(" --pp {} --pp-schedule {}", c.layout.pp, pp_schedule_option(c));
  return {{"format", "ac-advisor/checkpoint/1"},
          {"model", model},
          {"shard", layout},
          {"world", std::to_string(c.layout.world)},
          {"batch", std::to_string(c.run.batch)},
          {"seq", std::to_string(c.run.seq)},
          {"grad_accum", std::to_string(c.run.grad_accum)},
          {"param_dtype", to_option(c.precision.param_dtype)},
          {"optimizer", to_option(c.optimizer.kind)}};
}

}  // namespace

void save_checkpoint(Rank& rank, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError(folder + ": cannot be made: " + error.message());
  auto metadata = description(rank.built());
  metadata["steps"] = std::to_string(rank.steps_done());
  write_safetensors(file_of(rank, folder), rank.state(), metadata);
}

void load_checkpoint(Rank& rank, const std::string& folder) {
  const SafetensorsFile file(file_of(rank, folder));
  const auto& found = file.metadata();
  for (const auto& [key, value] : description(rank.built())) {
    const auto it = found.find(key);
    const std::string there = it == found.end() ? "nothing" : it->second;
    if (there != value)
      throw UserError(
          fmt::format("{}: was made with {} {}, this run has {}; give the same, or "
                      "another --checkpoint",
                      file.path(), key, there, value));
  }
  std::int64_t steps = 0;
  const std::string text = found.contains("steps") ? found.at("steps") : "";
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (bad != std::errc{} || end != text.data() + text.size() || steps < 0)
    throw UserError(file.path() + ": \"steps\" must be a whole number");
  for (const auto& [name, tensor] : rank.state()) {
    const auto entry = file.entries().find(name);
    if (entry == file.entries().end() || entry->second.shape != tensor.sizes().vec())
      throw UserError(file.path() + ": tensor \"" + name + "\" is missing or of another shape");
    file.read(name, 0, tensor.numel(), tensor);
  }
  // ZeRO's parameters are whole beside the partition, and saved whole: nothing is to be gathered.
  rank.set_steps_done(steps);
}

}  // namespace ac_advisor::trainer
