#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/advise/changes.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/oom/error.hpp"

namespace ac_advisor::oom {

/// What was asked for.
struct Tensor {
  std::string what;     ///< "logits"
  std::string shape;    ///< "24,576 tokens x 151,936, 4 bytes each"
  std::string made_by;  ///< "3 sequences of 8,192"; empty: it does not depend on the batch
  std::int64_t rows = 0, width = 0, element = 0, bytes = 0;
  /// Its rows are those of the planned step, or the traceback says the same as its size.
  bool certain = false;
  std::string op, module;  ///< in the plan; empty: not found there
  std::string plan_phase;
};

/// One error, explained.
struct Finding {
  Error error;
  std::string role;   ///< what the traceback's frames say: "logits cast to fp32"; empty: nothing
  std::string phase;  ///< "backward"; empty: not known
  std::string where;  ///< the frame: "transformers/loss/loss_utils.py:36"
  std::optional<Tensor> tensor;
  std::vector<Tensor> alternatives;  ///< less likely
  std::int64_t missing = 0;  ///< bytes that the request lacked beside what was free in any form
  bool fragmented = false;   ///< what was free, and reserved in no tensor, would have sufficed
  std::string need;          ///< a sentence of that
  std::vector<std::string> notes;  ///< of other processes, of what is not PyTorch's, of the limit
};

/// A planned step of the model beside the errors.
struct Planned {
  profile::Profile profile;
  std::vector<advise::Change> changes;
  std::vector<std::string> notes;  ///< where the text and the plan differ
};

struct Explanation {
  std::vector<Finding> findings;
  std::int64_t flushes = 0;              ///< DeepSpeed's warning
  std::optional<Planned> planned;        ///< none without a model
  std::vector<std::string> suggestions;  ///< without one: what helps such a tensor
};

/// What the text alone says. `errors`, `flushes`: `read_errors` and `cache_flushes` of it.
[[nodiscard]] Explanation explain(std::vector<Error> errors, std::int64_t flushes);
/// The same with the model's step beside it. Throws UserError where the step cannot be planned.
[[nodiscard]] Explanation explain(std::vector<Error> errors, std::int64_t flushes,
                                  const model::ModelSpec& model, const advise::Resolved& resolved);

/// The device whose memory the text tells, by its name; empty: none is as large.
[[nodiscard]] std::string device_of(const std::vector<Error>& errors);

}  // namespace ac_advisor::oom
