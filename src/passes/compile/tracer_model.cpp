// What a graph of the whole model has beside its blocks: the embedding, positions, the causal mask
// that transformers builds where it is traced, keys and values of each query's head, the loss.
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

namespace {

constexpr std::int64_t ignored_label = -100;

}  // namespace

/// decompositions.py: embedding_dense_backward, in fp32.
Tensor Tracer::embedding(Tensor weight, Tensor ids) {
  const Shape table = shape(weight), tokens = shape(ids);
  const NodeId y = emit(Target::embedding, {weight.node, ids.node},
                        {tokens[0], tokens[1], table[1]}, dtype(weight));
  return made(y, weight.requires_grad, [=, this](NodeId g) {
    const NodeId wide = convert_node(g, DType::f32);
    const NodeId padding = emit(Target::compare, {ids.node}, tokens, DType::u8, 0, -1);
    const NodeId column = emit(Target::unsqueeze, {padding}, {tokens[0], tokens[1], 1}, DType::u8);
    const NodeId zero = emit(Target::full, {}, Shape{}, DType::f32);
    const NodeId rows = emit(Target::where, {column, zero, wide}, node(wide).shape, DType::f32);
    const NodeId zeros = emit(Target::full, {}, table, DType::f32);
    const NodeId summed = emit(Target::index_put, {zeros, ids.node, rows}, table, DType::f32);
    give(weight, convert_node(summed, dtype(weight)));
  });
}

Tensor Tracer::iota(std::int64_t count) {
  return made(emit(Target::iota, {}, {count}, DType::i64), false, {});
}

Tensor Tracer::cos(Tensor x) { return made(like(Target::cos, {x.node}, x.node), false, {}); }
Tensor Tracer::sin(Tensor x) { return made(like(Target::sin, {x.node}, x.node), false, {}); }

/// Of two that no gradient reaches.
Tensor Tracer::outer(Tensor column, Tensor row, const Shape& shape) {
  return made(emit(Target::mul, {column.node, row.node}, shape, DType::f32), false, {});
}

/// torch.cat((x, x), dim=-1) as Inductor's patterns have it: expanded and copied
/// (_inductor/fx_passes/joint_graph.py, v2.11).
Tensor Tracer::twice(Tensor x) {
  const Shape s = shape(x);
  const NodeId apart = emit(Target::unsqueeze, {x.node}, {s[0], s[1], 1, s[2]}, dtype(x));
  const NodeId wide = emit(Target::expand, {apart}, {s[0], s[1], 2, s[2]}, dtype(x));
  return made(view_node(like(Target::clone, {wide}, wide), {s[0], s[1], 2 * s[2]}), false, {});
}

/// transformers 5.23, masking_utils.py: create_causal_mask, which skips no mask while it is traced;
/// find_packed_sequence_indices, causal_mask_function and packed_sequence_mask_function over
/// indices (_vmap_for_bhqkv's broadcast twin).
Tensor Tracer::causal_mask(Tensor positions, std::int64_t batch) {
  const std::int64_t tokens = shape(positions)[0];
  const auto integers = [&](Target target, NodeList in, const Shape& to, std::int64_t index = 0,
                            double number = 0) {
    return emit(target, std::move(in), to, DType::i64, index, number);
  };
  const auto booleans = [&](Target target, NodeList in, const Shape& to, std::int64_t index = 0,
                            double number = 0) {
    return emit(target, std::move(in), to, DType::u8, index, number);
  };
  const NodeId row = integers(Target::unsqueeze, {positions.node}, {1, tokens});
  const NodeId all = integers(Target::expand, {row}, {batch, tokens});
  const NodeId first = integers(Target::slice, {all}, {batch, 1});
  const NodeId before = integers(Target::sub, {first}, {batch, 1}, 0, 1);
  const NodeId joined = integers(Target::cat, {before, all}, {batch, tokens + 1});
  const NodeId left = integers(Target::slice, {joined}, {batch, tokens});
  const NodeId right = integers(Target::slice, {joined}, {batch, tokens}, 1);
  const NodeId step = integers(Target::sub, {right, left}, {batch, tokens});
  const NodeId jumps = booleans(Target::compare, {step}, {batch, tokens}, 0, 1);
  const NodeId document = integers(Target::cumsum, {jumps}, {batch, tokens});
  const NodeId sequence = integers(Target::iota, {}, {batch});
  const NodeId sequences = integers(Target::unsqueeze, {sequence}, {batch, 1, 1, 1});
  const NodeId flat = integers(Target::unsqueeze, {row}, {1, 1, tokens});
  const NodeId queries = integers(Target::unsqueeze, {flat}, {1, 1, tokens, 1}, 3);
  const NodeId keys = integers(Target::unsqueeze, {flat}, {1, 1, 1, tokens}, 2);
  const Shape down{batch, 1, tokens, 1}, across{batch, 1, 1, tokens},
      square{batch, 1, tokens, tokens};
  const NodeId yes = booleans(Target::full, {}, Shape{}, 0, 1);
  const NodeId same = booleans(Target::compare,
                               {integers(Target::index, {document, sequences, queries}, down),
                                integers(Target::index, {document, sequences, keys}, across)},
                               square);
  const NodeId packed = booleans(Target::bitwise_and, {yes, same}, square);
  const NodeId earlier = booleans(Target::compare,
                                  {integers(Target::index, {all, sequences, keys}, across),
                                   integers(Target::index, {all, sequences, queries}, down)},
                                  square, 1);
  return made(booleans(Target::bitwise_and, {packed, earlier}, square), false, {});
}

/// sdp_utils.cpp's convert_boolean_attn_mask: 0, or the least number.
Tensor Tracer::additive(Tensor mask, DType type, const Shape& size) {
  const NodeId least = emit(Target::full, {}, Shape{}, type, 0, -65504);
  const NodeId zero = emit(Target::full, {}, Shape{}, type);
  return made(emit(Target::where, {mask.node, zero, least}, size, type), false, {});
}

/// transformers' repeat_kv: [B, kv heads, S, D] as [B, heads, S, D].
Tensor Tracer::repeat_heads(Tensor x, std::int64_t heads) {
  const Shape s = shape(x);
  const std::int64_t group = heads / s[1];
  if (group == 1) return x;
  const Shape wide{s[0], s[1], group, s[2], s[3]};
  const NodeId apart = emit(Target::unsqueeze, {x.node}, {s[0], s[1], 1, s[2], s[3]}, dtype(x));
  const NodeId expanded = emit(Target::expand, {apart}, wide, dtype(x));
  const NodeId copied = like(Target::clone, {expanded}, expanded);
  const NodeId y = emit(Target::view, {copied}, {s[0], heads, s[2], s[3]}, dtype(x));
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId parts = emit(Target::view, {g}, wide, node(g).dtype);
    const NodeId sum =
        emit(Target::sum, {parts}, {s[0], s[1], 1, s[2], s[3]}, node(g).dtype, group);
    give(x, emit(Target::view, {sum}, s, node(g).dtype));
  });
}

/// ForCausalLMLoss: labels padded and shifted, logits in fp32, log_softmax and nll_loss
/// (decompositions.py: _log_softmax, _nll_loss_forward and their backwards).
Tensor Tracer::cross_entropy(Tensor logits, Tensor labels) {
  const Shape wide = shape(logits), ids = shape(labels);
  const std::int64_t rows = ids.numel(), vocabulary = wide.back();
  const Shape flat{rows, vocabulary}, column{rows, 1}, row{rows};
  const auto in = [this](Target target, NodeList inputs, const Shape& to, DType type = DType::f32,
                         std::int64_t index = 0, double number = 0) {
    return emit(target, std::move(inputs), to, type, index, number);
  };
  const auto logits_in_fp32 = [=, this] {
    return view_node(convert_node(logits.node, DType::f32), flat);
  };
  const NodeId x = logits_in_fp32();
  const NodeId padded = in(Target::pad, {labels.node}, {ids[0], ids[1] + 1}, DType::i64);
  const NodeId shifted = in(Target::slice, {padded}, ids, DType::i64, 1);
  const NodeId targets = view_node(like(Target::clone, {shifted}, shifted), row);
  const NodeId most = in(Target::amax, {x}, column);
  const NodeId less = in(Target::sub, {x, most}, flat);
  const NodeId log_sum =
      like(Target::log, {in(Target::sum, {like(Target::exp, {less}, less)}, column)}, most);
  const NodeId log_softmax = in(Target::sub, {less, log_sum}, flat);
  const auto number = static_cast<double>(ignored_label);
  const NodeId counted = in(Target::compare, {targets}, row, DType::u8, 0, number);
  const NodeId none = in(Target::full, {}, Shape{}, DType::i64);
  const NodeId safe = in(Target::where, {counted, targets, none}, row, DType::i64);
  const NodeId at = in(Target::unsqueeze, {safe}, column, DType::i64);
  const NodeId picked = view_node(in(Target::gather, {log_softmax, at}, column), row);
  const NodeId zero = in(Target::full, {}, Shape{}, DType::f32);
  const NodeId losses = in(Target::where, {counted, in(Target::neg, {picked}, row), zero}, row);
  const NodeId count = convert_node(in(Target::sum, {counted}, Shape{}, DType::i64), DType::f32);
  const NodeId loss = in(Target::div, {in(Target::sum, {losses}, Shape{}), count}, Shape{});
  return made(loss, true, [=, this](NodeId g) {
    const NodeId share = in(Target::div, {g, count}, Shape{});
    const NodeId each = in(Target::unsqueeze, {targets}, column, DType::i64);
    const NodeId has = in(Target::compare, {each}, column, DType::u8, 0, number);
    const NodeId own = in(Target::where, {has, each, none}, column, DType::i64);
    // scatter of a number into zeros (fx_passes/post_grad.py: scatter_upon_const_tensor)
    const NodeId numbers = in(Target::iota, {}, {vocabulary}, DType::i64);
    const NodeId across = view_node(numbers, {1, vocabulary});
    const NodeId spread = in(Target::expand, {own}, flat, DType::i64);
    const NodeId is_own = in(Target::compare, {spread, across}, flat, DType::u8);
    const NodeId minus_one = in(Target::full, {}, Shape{}, DType::f32, 0, -1);
    const NodeId one_hot = in(Target::where, {is_own, minus_one, zero}, flat);
    const NodeId weight = in(Target::where, {has, share, zero}, column);
    const NodeId scattered = in(Target::mul, {one_hot, weight}, flat);
    const NodeId probability = like(Target::exp, {log_softmax}, log_softmax);
    const NodeId sum = in(Target::sum, {scattered}, column);
    const NodeId gradient =
        in(Target::sub, {scattered, in(Target::mul, {probability, sum}, flat)}, flat);
    give(logits, convert_node(view_node(gradient, wide), dtype(logits)));
  });
}

}  // namespace ac_advisor::passes::compile
