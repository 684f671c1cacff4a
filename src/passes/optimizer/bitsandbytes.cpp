// bitsandbytes 0.50.2, optim/optimizer.py: AdamW8bit, PagedAdamW, PagedAdamW8bit and Lion. A kernel
// a parameter; no temporaries.
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

constexpr std::int64_t least_8bit_elements = 4096, block_elements = 256;
/// get_state_buffer: smaller states are not paged.
constexpr std::int64_t least_paged_elements = 100'000;

struct Kind {
  int states;
  bool narrow, paged;
};

Kind kind_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::adamw_8bit:
      return {2, true, false};
    case Optimizer::paged_adamw:
      return {2, false, true};
    case Optimizer::paged_adamw_8bit:
      return {2, true, true};
    default:
      return {1, false, false};  // lion
  }
}

}  // namespace

void append_bitsandbytes(OptimizerOps& ops, const OptimizerChoice& choice) {
  const Kind kind = kind_of(choice.kind);
  OptimizerOps::Values maps;  // name2qmap: one table a state, for all parameters
  ops.range();
  for (const OptimizedTensor& t : ops.tensors()) {
    const std::int64_t n = ops.numel(t.parameter);
    const bool embedding = ops.module_of(t.parameter).leaf == ir::Module::embed;
    const bool narrow =
        kind.narrow && n >= least_8bit_elements && !(embedding && choice.wide_embedding_states);
    OptimizerOps::Values reads{t.parameter};
    if (t.gradient != ir::no_id) reads.push_back(t.gradient);
    if (narrow && maps.empty())
      for (int i = 0; i < kind.states; ++i)
        maps.push_back(ops.state({256}, DType::f32, t.parameter));
    if (!kind.paged || n < least_paged_elements)
      for (int i = 0; i < kind.states; ++i)
        reads.push_back(ops.state({n}, narrow ? DType::u8 : DType::f32, t.parameter));
    if (narrow)
      for (int i = 0; i < kind.states; ++i)  // absmax of each block
        reads.push_back(
            ops.state({(n + block_elements - 1) / block_elements}, DType::f32, t.parameter));
    if (narrow) reads.insert(reads.end(), maps.begin(), maps.end());
    ops.kernel(reads, {});
  }
}

}  // namespace ac_advisor::passes
