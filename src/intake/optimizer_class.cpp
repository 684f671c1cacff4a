#include <string>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

struct Class {
  std::string_view theirs, ours;
};
constexpr Class classes[] = {{"bitsandbytes.optim.AdamW8bit", "adamw-8bit"},
                             {"bitsandbytes.optim.PagedAdamW", "paged-adamw"},
                             {"bitsandbytes.optim.PagedAdamW8bit", "paged-adamw-8bit"},
                             {"bitsandbytes.optim.Lion", "lion"},
                             {"torchao.optim.AdamW8bit", "adamw-8bit-torchao"}};

}  // namespace

void read_optimizer_class(Keys& keys, std::string_view key, std::string_view name) {
  for (const Class& optimizer : classes)
    if (optimizer.theirs == name)
      return keys.option(key, "--optimizer", std::string(optimizer.ours));
  static_cast<void>(keys.unplanned(key, "no optimizer of ours is this one"));
}

}  // namespace ac_advisor::intake
