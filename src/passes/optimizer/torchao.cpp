// torchao 0.18.0, optim/adam.py and subclass_8bit.py: AdamW8bit. Its update is compiled, a graph a
// parameter, and works on whole tensors of sizes that its blocks divide.
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

constexpr std::int64_t least_elements = 4096, elements_of_block = 256;

}  // namespace

void append_torchao_adamw_8bit(OptimizerOps& ops, const OptimizerChoice&) {
  ops.range();
  for (const OptimizedTensor& t : ops.tensors()) {
    const std::int64_t n = ops.numel(t.parameter);
    const bool narrow = n >= least_elements && n % elements_of_block == 0;
    OptimizerOps::Values reads{t.parameter};
    if (t.gradient != ir::no_id) reads.push_back(t.gradient);
    for (int moment = 0; moment < 2; ++moment) {
      if (!narrow) {
        reads.push_back(ops.state({n}, ops.dtype(t.parameter), t.parameter));
        continue;
      }
      reads.push_back(ops.state({n}, DType::u8, t.parameter));                       // codes
      reads.push_back(ops.state({n / elements_of_block}, DType::f32, t.parameter));  // scale
      reads.push_back(ops.state({256}, DType::f32, t.parameter));                    // qmap
    }
    ops.kernel(reads, {});
  }
}

}  // namespace ac_advisor::passes
