// A DeepSpeed configuration beside a training file: `auto` is what accelerate fills in from the
// Trainer's arguments, which are mapped already.
#include <fmt/format.h>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

std::string device_of(const Node& zero, std::string_view what) {
  const Node* offload = zero.find(what);
  const Node* device = offload == nullptr ? nullptr : offload->find("device");
  return device == nullptr || device->text == "none" ? std::string() : device->text;
}

}  // namespace

void read_deepspeed(Keys& keys, std::string_view key) {
  const Node& given = *keys.node(key);
  if (given.kind == Node::Kind::scalar && (given.text.empty() || truth_of(given.text) == false))
    return;
  if (keys.by_hand("--shard")) {
    static_cast<void>(keys.node(key));
    return keys.assume(fmt::format("{}: --shard by hand says how parameters are sharded", key));
  }
  read_zero(keys, key, config_of(keys, key, "say --shard zero1, zero2, zero3 or none by hand"));
}

void read_zero(Keys& keys, std::string_view key, const Node& config) {
  const Node* zero = config.find("zero_optimization");
  if (zero != nullptr && zero->kind != Node::Kind::map)
    keys.refuse(key, "zero_optimization is a map, such as {\"stage\": 2}");
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
  // runtime/zero/config.py: stage 3 overlaps unless it is told not to, which is planned so.
  const Node* overlap = zero->find("overlap_comm");
  const bool overlaps =
      overlap == nullptr ? word == "3" : truth_of(overlap->text).value_or(word == "3");
  if (word != "3" && overlaps) keys.option(key, "--overlap-comm");
  if (word == "3" && !overlaps)
    keys.assume(fmt::format("{}: overlap_comm is planned as true", key));
  // zero/config.py: 5e8; hf_deepspeed.py, trainer_config_finalize: "auto" is hidden_size²
  if (const Node* bucket = zero->find("reduce_bucket_size");
      word != "3" && bucket != nullptr && bucket->text != "5e8" && bucket->text != "500000000")
    keys.assume(fmt::format("{}: reduce_bucket_size {}: DeepSpeed's own 5e8 elements are planned",
                            key, plain(bucket->text)));
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
