// What files say of a model with an encoder of images: which parts are frozen, and how large its
// images are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/layer_names.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/tower_parts.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

namespace fs = std::filesystem;

/// The side, in pixels, of the largest square that has neither more pixels than a processor allows
/// (smart_resize) nor more tokens than a row of `images` such has room for.
std::int64_t largest_side(const model::TowerRun& run, std::int64_t most_pixels, std::int64_t images,
                          std::int64_t seq) {
  const std::int64_t factor = run.patch * run.merge, around = 2;
  const std::int64_t room = seq / images - around;
  const auto merged =
      std::min(static_cast<double>(most_pixels) / static_cast<double>(factor * factor),
               static_cast<double>(room));
  return merged < 1 ? 0 : static_cast<std::int64_t>(std::sqrt(merged)) * factor;
}

}  // namespace

const std::optional<model::Tower>& Keys::tower() {
  if (tower_) return *tower_;
  tower_.emplace();
  if (request_.spec != nullptr) return *(tower_ = request_.spec->tower);
  const fs::path beside = fs::path(out_.path).parent_path() / out_.model;
  std::error_code error;
  const bool here = request_.model.empty() && !out_.model.empty() && fs::exists(beside, error);
  try {
    tower_ = model::load_model(!request_.model.empty() ? request_.model
                               : here                  ? beside.string()
                                                       : out_.model)
                 .tower;
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): told where it is planned
  }
  return *tower_;
}

FrozenParts read_frozen(Keys& keys, const FreezeKeys& names) {
  return {.tower = keys.flag(names.tower),
          .projector = keys.flag(names.projector),
          .decoder = keys.flag(names.decoder)};
}

FrozenParts without_adapters(Keys& keys, FrozenParts frozen,
                             const std::vector<std::string>& targets) {
  FrozenParts named{.tower = true, .projector = true};
  for (const model::TensorGroup& group : keys.tower()->groups)
    for (const model::EncoderLinear& layer : group.linears) {
      const bool hit = std::ranges::any_of(
          targets, [&](const std::string& target) { return model::ends_in(layer.name, target); });
      if (hit) (model::of_projector(layer) ? named.projector : named.tower) = false;
    }
  frozen.tower = frozen.tower || named.tower;
  frozen.projector = frozen.projector || named.projector;
  return frozen;
}

void set_frozen(Keys& keys, std::string_view key, const FrozenParts& frozen) {
  StepConfig step;
  step.run.frozen = frozen;
  if (frozen.any()) keys.option(key, "--freeze", freeze_text(step));
}

bool read_images(Keys& keys, std::string_view key, std::int64_t most_pixels) {
  if (keys.value_of("--images") == "0") {
    keys.assume("--images 0: rows of text alone are planned, beside an encoder that does not run");
    return false;
  }
  const std::optional<model::TowerRun>& run = keys.tower()->run;
  if (!run) {
    keys.assume(fmt::format("images are not planned for {}: rows of text alone are",
                            keys.tower()->encoder));
    return false;
  }
  if (!keys.by_hand("--images")) {
    keys.option(key, "--images", "1");
    keys.assume(
        "one image a row is planned: --images N says how many there are, --images 0 that "
        "rows are of text alone");
  }
  if (!run->any_size()) {
    static_cast<void>(keys.number(key));
    return true;
  }
  if (keys.by_hand("--image-pixels")) return true;
  const std::int64_t images = std::stoll(keys.value_of("--images")),
                     seq = std::stoll(keys.value_of("--seq")),
                     side = largest_side(*run, most_pixels, std::max<std::int64_t>(images, 1), seq);
  if (side == 0)
    keys.refuse(key, fmt::format("{} images of a row of {} tokens have no room: fewer images, or "
                                 "longer rows",
                                 images, seq));
  keys.option(key, "--image-pixels", fmt::format("{}x{}", side, side));
  keys.assume(fmt::format(
      "each image is planned {} pixels a side, the largest square that {} and rows of {} tokens "
      "allow, an upper bound: smaller ones hold less; --image-pixels HxW says their size",
      side, key, seq));
  return true;
}

}  // namespace ac_advisor::intake
