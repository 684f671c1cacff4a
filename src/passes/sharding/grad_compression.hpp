#pragma once

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Gradients of a bucket that lie one after another: elements before each, and its shape.
struct BucketPart {
  std::int64_t begin = 0;
  ir::Shape shape;
};

/// What the hook of `config.compression` keeps of the bucket between steps, resident.
void keep_for_compression(StepProgram& step, const StepConfig& config, ir::ValueId bucket,
                          const std::vector<BucketPart>& parts);

/// The hook: the bucket becomes the average over ranks of what is sent of it. Appended at the end
/// of the program.
void append_compression(StepProgram& step, const StepConfig& config, const CompressedBucket& kept,
                        std::int32_t& group);

}  // namespace ac_advisor::passes
