#include "joint_graph.hpp"

#include <algorithm>
#include <array>

namespace ac_advisor::passes::compile {
namespace {

using enum Target;

constexpr bool yes = true, no = false;
constexpr std::array<TargetRow, static_cast<std::size_t>(count_)> target_table{{
    {placeholder, "placeholder", no, no, no},
    {tangent, "tangent", no, no, no},
    {convert, "prims.convert_element_type.default", no, yes, no},
    {pow, "aten.pow.Tensor_Scalar", no, yes, no},
    {mean, "aten.mean.dim", no, yes, no},
    {add, "aten.add.Tensor", no, yes, no},
    {sub, "aten.sub.Tensor", no, yes, no},
    {mul, "aten.mul.Tensor", no, yes, no},
    {div, "aten.div.Tensor", no, yes, no},
    {neg, "aten.neg.default", no, yes, no},
    {exp, "aten.exp.default", no, yes, no},
    {log, "aten.log.default", no, yes, no},
    {cos, "aten.cos.default", no, yes, no},
    {sin, "aten.sin.default", no, yes, no},
    {tanh, "aten.tanh.default", no, yes, no},
    {erf, "aten.erf.default", no, yes, no},
    {relu, "aten.relu.default", no, yes, no},
    {rsqrt, "aten.rsqrt.default", no, yes, no},
    {reciprocal, "aten.reciprocal.default", no, yes, no},
    {compare, "aten.le.Scalar", no, yes, no},
    {bitwise_and, "aten.bitwise_and.Tensor", no, yes, no},
    {where, "aten.where.self", no, yes, no},
    {sum, "aten.sum.dim_IntList", no, yes, no},
    {amax, "aten.amax.default", no, yes, no},
    {cumsum, "aten.cumsum.default", no, no, no},
    {var_mean, "aten.var_mean.correction", no, yes, no},
    {cat, "aten.cat.default", no, no, no},
    {full, "aten.full.default", no, yes, no},
    {iota, "prims.iota.default", no, yes, no},
    {embedding, "aten.embedding.default", no, no, no},
    {index, "aten.index.Tensor", no, yes, no},
    {gather, "aten.gather.default", no, yes, no},
    {index_put, "aten.index_put.default", no, no, no},
    {pad, "aten.constant_pad_nd.default", no, no, no},
    {slice_scatter, "aten.slice_scatter.default", no, no, no},
    {clone, "aten.clone.default", no, yes, no},
    {view, "aten.view.default", yes, yes, no},
    {permute, "aten.permute.default", yes, yes, no},
    {unsqueeze, "aten.unsqueeze.default", yes, yes, no},
    {slice, "aten.slice.Tensor", yes, yes, no},
    {expand, "aten.expand.default", yes, yes, no},
    {split, "aten.split.Tensor", yes, yes, no},
    {mm, "aten.mm.default", no, no, yes},
    {addmm, "aten.addmm.default", no, no, yes},
    // Not in the list of compute-intensive ops: from a small enough budget on it is free.
    {sdpa_cudnn, "aten._scaled_dot_product_cudnn_attention.default", no, no, no},
    {sdpa_flash, "aten._scaled_dot_product_flash_attention.default", no, no, yes},
    {sdpa_cudnn_backward, "aten._scaled_dot_product_cudnn_attention_backward.default", no, no, no},
    {sdpa_flash_backward, "aten._scaled_dot_product_flash_attention_backward.default", no, no, no},
    {getitem, "getitem", no, yes, no},
    {greater, "aten.gt.Scalar", no, yes, no},
    {floor, "aten.floor.default", no, yes, no},
    {select, "aten.select.int", yes, yes, no},
    {seeds, "prims.inductor_seeds.default", no, no, no},
    {seed, "prims.inductor_lookup_seed.default", no, no, no},
    {random, "prims.inductor_random.default", no, no, no},
    {topk, "aten.topk.default", no, no, no},
    {sort, "aten.sort.default", no, no, no},
    {floor_divide, "aten.div.Tensor_mode", no, yes, no},
    {histc, "aten.histc.default", no, no, no},
    // Products of experts are not in the list of compute-intensive ops either.
    {grouped_mm, "aten._grouped_mm.default", no, no, no},
    {empty, "aten.empty.memory_format", no, yes, no},
    {scatter, "aten.scatter.src", no, no, no},
    {scatter_add, "aten.scatter_add.default", no, no, no},
    {sigmoid, "aten.sigmoid.default", no, yes, no},
    {fma, "prims.fma.default", no, yes, no},
    {bitwise_not, "aten.bitwise_not.default", no, yes, no},
    {abs, "aten.abs.default", no, yes, no},
    {clamp_min, "aten.clamp_min.default", no, yes, no},
    {clamp_max, "aten.clamp_max.default", no, yes, no},
    {log2, "aten.log2.default", no, yes, no},
    {exp2, "aten.exp2.default", no, yes, no},
    {max, "aten.max.default", no, yes, no},
    {scaled_mm, "aten._scaled_mm.default", no, no, yes},
    {copy, "copy", no, yes, no},
    {all_gather, "_c10d_functional.all_gather_into_tensor.default", no, no, no},
    {all_reduce, "_c10d_functional.all_reduce.default", no, no, no},
    {reduce_scatter, "_c10d_functional.reduce_scatter_tensor.default", no, no, no},
    {wait, "_c10d_functional.wait_tensor.default", no, no, no},
    {sdpa_efficient, "aten._scaled_dot_product_efficient_attention.default", no, no, yes},
    {sdpa_efficient_backward, "aten._scaled_dot_product_efficient_attention_backward.default", no,
     no, no},
    {gemm_4bit, "bitsandbytes.gemm_4bit.default", no, no, no},
    {dequantize_scales, "bitsandbytes.dequantize_blockwise.default", no, no, no},
    {dequantize_4bit, "bitsandbytes.dequantize_4bit.default", no, no, no},
    {as_complex, "aten.view_as_complex.default", no, no, no},
    {as_real, "aten.view_as_real.default", no, no, no},
    {complex_mul, "aten.mul.Tensor", no, yes, no},
    {complex_rows, "aten.index.Tensor", no, yes, no},
    {conj, "aten._conj.default", no, no, no},
    {conjugate, "aten.clone.default", no, yes, no},
    {all_to_all, "_c10d_functional.all_to_all_single.default", no, no, no},
    {minimum, "aten.minimum.default", no, yes, no},
    {log1p, "aten.log1p.default", no, yes, no},
}};
static_assert([] {
  for (std::size_t i = 0; i < target_table.size(); ++i)
    if (target_table[i].target != static_cast<Target>(i)) return false;
  return true;
}());

}  // namespace

const TargetRow& row(Target target) { return target_table[static_cast<std::size_t>(target)]; }

bool is_attention(Target target) {
  return target == sdpa_cudnn || target == sdpa_flash || target == sdpa_efficient ||
         is_attention_backward(target);
}

bool is_attention_backward(Target target) {
  return target == sdpa_cudnn_backward || target == sdpa_flash_backward ||
         target == sdpa_efficient_backward;
}

std::int64_t Node::bytes() const {
  return has_tensor ? ir::checked_mul(shape.numel(), size_of(dtype)) : 0;
}

std::int64_t JointGraph::bytes_of(NodeId n) const {
  if (node(n).has_tensor) return node(n).bytes();
  std::int64_t sum = 0;
  for (NodeId user : node(n).users) sum += node(user).bytes();
  return sum;
}

std::vector<NodeId> JointGraph::all(Target target) const {
  std::vector<NodeId> found;
  for (NodeId n = 0; n < size(); ++n)
    if (node(n).target == target) found.push_back(n);
  return found;
}

std::string name_of(const JointGraph& graph, NodeId n) {
  const Node& node = graph.node(n);
  if (node.target == getitem)
    return name_of(graph, node.inputs[0]) + "[" + std::to_string(node.index) + "]";
  if (node.target == compare && node.inputs.size() == 2)
    return node.index == 0 ? "aten.eq.Tensor" : "aten.le.Tensor";
  if (node.target == mm && node.shape.rank() == 3) return "aten.bmm.default";
  return row(node.target).name;
}

bool is_collective(Target target) {
  return target == all_gather || target == all_reduce || target == reduce_scatter ||
         target == all_to_all || target == wait;
}

bool is_of_four_bits(Target target) {
  return target == gemm_4bit || target == dequantize_scales || target == dequantize_4bit;
}

bool is_complex(Target target) {
  return is_alias(target) || target == complex_mul || target == complex_rows || target == conjugate;
}

bool is_alias(Target target) { return target == as_complex || target == as_real || target == conj; }

bool adds_into(Target target) {
  return target == index_put || target == scatter || target == scatter_add;
}

JointGraph without_dead_code(JointGraph graph) {
  std::vector<bool> needed(graph.nodes.size(), false);
  for (const auto* outputs : {&graph.forward_outputs, &graph.backward_outputs})
    for (NodeId n : *outputs)
      if (n >= 0) needed[static_cast<std::size_t>(n)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.target == placeholder || node.target == tangent) needed[i] = true;
    if (!needed[i]) continue;
    for (NodeId in : node.inputs) needed[static_cast<std::size_t>(in)] = true;
  }
  JointGraph alive;
  alive.nodes.reserve(graph.nodes.size());
  std::vector<NodeId> moved(graph.nodes.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    moved[i] = alive.size();
    Node node = std::move(graph.nodes[i]);
    node.users.clear();
    for (NodeId& in : node.inputs) {
      in = moved[static_cast<std::size_t>(in)];
      auto& users = alive.node(in).users;
      if (std::find(users.begin(), users.end(), moved[i]) == users.end()) users.push_back(moved[i]);
    }
    alive.nodes.push_back(std::move(node));
  }
  const auto outputs = [&](const std::vector<NodeId>& old) {
    std::vector<NodeId> result;
    for (NodeId n : old) result.push_back(n < 0 ? n : moved[static_cast<std::size_t>(n)]);
    return result;
  };
  alive.forward_outputs = outputs(graph.forward_outputs);
  alive.backward_outputs = outputs(graph.backward_outputs);
  return alive;
}

JointGraph without_pointless_converts(JointGraph graph) {
  const auto is_float = [](DType type) {
    return type == DType::f32 || type == DType::bf16 || type == DType::f16;
  };
  std::vector<bool> returned(graph.nodes.size(), false);
  for (const auto* outputs : {&graph.forward_outputs, &graph.backward_outputs})
    for (NodeId n : *outputs)
      if (n >= 0) returned[static_cast<std::size_t>(n)] = true;
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (node.target != convert || node.of_two || !is_float(node.dtype)) continue;
    const NodeId before = node.inputs[0];
    const Node& inner = graph.node(before);
    if (inner.target != convert || !is_float(inner.dtype) || inner.users.size() != 1 ||
        returned[static_cast<std::size_t>(before)])
      continue;
    node.inputs = {inner.inputs[0]};
    changed = true;
  }
  return changed ? without_dead_code(std::move(graph)) : graph;
}

}  // namespace ac_advisor::passes::compile
