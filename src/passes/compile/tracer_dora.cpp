// What DoRA's layers have beside products: the identity that makes one matrix of their adapters,
// and the norms of the rows of the weight with those (PEFT v0.21, tuners/lora/dora.py; torchtune
// v0.6.1, modules/peft/dora.py).
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

/// torch/_refs: eye.
Tensor Tracer::identity(std::int64_t size, DType dtype) {
  const NodeId across = emit(Target::iota, {}, {size}, DType::i64);
  const NodeId down = emit(Target::unsqueeze, {across}, {size, 1}, DType::i64);
  const NodeId same = emit(Target::compare, {down, across}, {size, size}, DType::u8);
  return made(convert_node(same, dtype), false, {});
}

/// torch/_refs/linalg: vector_norm of order 2, in fp32. A row's sum reads the adapters' product
/// across it, so that Inductor splits it as a column's (ir.py, v2.11: Reduction.num_splits).
Tensor Tracer::norm_of_rows(Tensor x) {
  const NodeId wide = convert_node(x.node, DType::f32);
  const NodeId square = like(Target::pow, {wide}, wide, 2);
  const NodeId sum = emit(Target::sum, {square}, {shape(x)[0]}, DType::f32);
  return made(convert_node(like(Target::pow, {sum}, sum, 0.5), dtype(x)), false, {});
}

}  // namespace ac_advisor::passes::compile
