// transformers v5.23, models/qwen2_vl/image_processing_qwen2_vl.py, smart_resize: each side is
// rounded to whole merged patches, half to even. Its limits of pixels are the processor's own.
#include "ac_advisor/model/image_size.hpp"

#include <algorithm>
#include <cmath>

namespace ac_advisor::model {

ImageGrid image_grid(const TowerRun& tower, const ModelRun& run) {
  if (!tower.any_size()) return {tower.image / tower.patch, tower.image / tower.patch};
  const std::int64_t factor = tower.patch * tower.merge;
  const auto cut = [&](std::int64_t side) {
    const double merged = std::nearbyint(static_cast<double>(side) / static_cast<double>(factor));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(merged)) * tower.merge;
  };
  return {cut(run.image_height), cut(run.image_width)};
}

std::int64_t image_tokens(const TowerRun& tower, const ModelRun& run) {
  return image_grid(tower, run).patches() / (tower.merge * tower.merge) +
         (tower.class_token ? 1 : 0);
}

std::int64_t image_tokens_of_sequence(const TowerRun& tower, const ModelRun& run) {
  constexpr std::int64_t around = 2;  // vision_start, vision_end
  return run.images * (image_tokens(tower, run) + (tower.any_size() ? around : 0));
}

}  // namespace ac_advisor::model
