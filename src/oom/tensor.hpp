#pragma once

#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "frame_marks.hpp"

namespace ac_advisor::oom {

/// What a request may have been for: rows of `width` elements, or so many elements in all.
struct Candidate {
  Role role = Role::unknown;
  std::string what;       ///< "logits", "the embedding's weight"
  std::int64_t rows = 0;  ///< 0: no rows; of scores and masks: tokens of a sequence
  std::int64_t least_rows = 0, most_rows = 0;  ///< that the text's digits allow
  std::int64_t width = 0;                      ///< elements of a row, or in all
  std::int64_t element = 0;                    ///< bytes
  std::int64_t sequences = 1;                  ///< of scores and masks
  bool planned = false;  ///< the rows are those of the configuration, or it has none
  int score = 0;         ///< the higher the likelier

  [[nodiscard]] std::int64_t bytes() const;
};

/// The bytes that a tensor may have whose segment a message tells.
struct Range {
  std::int64_t least = 0, most = 0;
};
/// PyTorch tells the segment that it would have made (c10/core/AllocatorConfig.h, v2.11): 2 MiB for
/// at most 1 MiB, 20 MiB for less than 10 MiB, else the next multiple of 2 MiB.
[[nodiscard]] Range asked_for(const Amount& told);

/// Of a model's step, the likeliest first; without a model (null) by the vocabularies that many
/// models have. Those that what the traceback says contradicts come last, or are left out. The
/// error says how much was requested.
[[nodiscard]] std::vector<Candidate> candidates(const Error& error, const Marks& marks,
                                                const model::ModelSpec* model,
                                                const StepConfig* config);

}  // namespace ac_advisor::oom
