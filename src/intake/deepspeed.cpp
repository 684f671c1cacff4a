// A DeepSpeed configuration beside a training file: `auto` is what accelerate fills in from the
// Trainer's arguments, which are mapped already.
#include <fmt/format.h>

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

namespace fs = std::filesystem;

/// Beside the training file, or from the folder that the program was started in.
std::string path_of(Keys& keys, const Node& given) {
  std::error_code error;
  const fs::path beside = fs::path(keys.out().path).parent_path() / given.text;
  if (fs::exists(beside, error)) return beside.string();
  return fs::exists(given.text, error) ? given.text : std::string();
}

std::string device_of(const Node& zero, std::string_view what) {
  const Node* offload = zero.find(what);
  const Node* device = offload == nullptr ? nullptr : offload->find("device");
  return device == nullptr || device->text == "none" ? std::string() : device->text;
}

}  // namespace

void read_deepspeed(Keys& keys, std::string_view key) {
  const Node* given = keys.node(key);
  if (keys.by_hand("--shard"))
    return keys.assume(fmt::format("{}: --shard by hand says how parameters are sharded", key));
  Node config = *given;
  if (given->kind == Node::Kind::scalar) {
    const std::string path = path_of(keys, *given);
    if (path.empty())
      keys.refuse(key,
                  "no such file, neither beside this one nor here; put it there, or say --shard "
                  "zero1, zero2, zero3 "
                  "or none by hand");
    config = read_document(path);
  }
  if (config.kind != Node::Kind::map) keys.refuse(key, "is no DeepSpeed configuration");
  const Node* zero = config.find("zero_optimization");
  const Node* stage = zero == nullptr ? nullptr : zero->find("stage");
  const std::string word = stage == nullptr ? "0" : stage->text;
  if (word == "0") {
    keys.option(key, "--shard", "ddp");
    keys.assume("DeepSpeed without ZeRO is planned as DDP: its buffer of gradients is not");
    return;
  }
  if (word != "1" && word != "2" && word != "3")
    keys.refuse(key, "zero_optimization.stage is 0, 1, 2 or 3");
  keys.option(key, "--shard", "zero" + word);
  const std::string optimizer = device_of(*zero, "offload_optimizer");
  const std::string parameters = device_of(*zero, "offload_param");
  for (const std::string& device : {optimizer, parameters})
    if (!device.empty() && device != "cpu")
      keys.refuse(key, fmt::format("offload to {} is not planned: cpu is", device));
  if (!parameters.empty())
    keys.option(key, "--offload", "parameters");
  else if (!optimizer.empty())
    keys.option(key, "--offload", "optimizer");
}

}  // namespace ac_advisor::intake
