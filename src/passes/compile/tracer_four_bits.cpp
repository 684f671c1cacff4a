// bitsandbytes' linear layers in 4 bits in a compiled block (v0.50: autograd/_functions.py,
// MatMul4Bit; functional.py, dequantize_4bit). The forward's product is one op, which dequantizes
// the weight for its own length; the backward has ops of its own for the weight, which read nothing
// but the layer's, so that the partitioner saves none of it.
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

Tensor Tracer::four_bit_linear(Tensor x, const FourBitWeight& weight, const Tensor* bias,
                               std::int64_t width) {
  const Shape all = shape(x);
  const std::int64_t inner = all.back();
  Shape wide = all;
  wide.set(wide.rank() - 1, width);
  NodeList operands{x.node, weight.codes.node, weight.scales.node};
  if (weight.nests) {
    operands.push_back(weight.nested.node);
    operands.push_back(weight.offset.node);
  }
  if (bias != nullptr) operands.push_back(bias->node);
  const NodeId y = emit(Target::gemm_4bit, std::move(operands), wide, dtype(x),
                        weight.nests ? 1 : 0, bias != nullptr ? 1 : 0);
  // A checkpoint tags the nodes of its own graph, not those within an autograd function's
  // (torch/_higher_order_ops/wrap.py, v2.11: tag_nodes); a policy sees each op.
  if (x.requires_grad && !weight.by_policy) leave_checkpoint(y);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const DType type = node(g).dtype;
    NodeId scales = weight.scales.node;
    if (weight.nests) {
      const Shape blocks = node(scales).shape;
      scales = emit(Target::dequantize_scales, {scales, weight.nested.node}, blocks, DType::f32);
      scales = emit(Target::add, {scales, weight.offset.node}, blocks, DType::f32);
    }
    const NodeId whole =
        emit(Target::dequantize_4bit, {weight.codes.node, scales}, {width, inner}, dtype(x));
    const std::int64_t rows = all.numel() / inner;
    const NodeId flat = view_node(g, {rows, width});
    const NodeId product = emit(Target::mm, {flat, convert_node(whole, type)}, {rows, inner}, type);
    give(x, view_node(product, all));
  });
}

}  // namespace ac_advisor::passes::compile
