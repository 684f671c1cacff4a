#pragma once

#include <cstdint>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::model {

/// Rows and columns of an image's patches.
struct ImageGrid {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::int64_t patches() const { return rows * columns; }
};

/// As the encoder's processor cuts it; of an encoder of any size `run` says how large it is.
[[nodiscard]] ImageGrid image_grid(const TowerRun& tower, const ModelRun& run);

/// That an image takes among the decoder's.
[[nodiscard]] std::int64_t image_tokens(const TowerRun& tower, const ModelRun& run);

/// That all of a sequence's images need, with the two of text that each stands between where the
/// encoder takes any size.
[[nodiscard]] std::int64_t image_tokens_of_sequence(const TowerRun& tower, const ModelRun& run);

}  // namespace ac_advisor::model
