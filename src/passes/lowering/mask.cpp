// transformers v5.23, masking_utils.py: how a model finds out whether sequences are packed, and the
// masks that it makes before its blocks: causal and sliding-window ones, and those of packed
// documents, (B, 1, S, S). Eager attention adds them to its scores; SDPA is given those of windows
// and of documents alone, as booleans; flash attention none.
#include <limits>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layers.hpp"
#include "lowering.hpp"
#include "passes/lowering/batch_positions.hpp"

namespace ac_advisor::passes {

using ir::Comparison;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// find_packed_sequence_indices: positions that do not go up by one begin a new sequence. The
/// document of each token, (B, S); no_id: there is but one.
ir::ValueId Lowering::packed_sequence_check() {
  leaf_ = Module::root;
  const std::int64_t b = config_.run.batch, s = config_.run.seq;
  constexpr std::int32_t last = 1;
  const auto along = static_cast<std::int32_t>(shape(positions_).rank()) - 1;
  const V before = make_int(OpKind::add_scalar, {b, 1}, DType::i64,
                            {p_.narrow(positions_, along, 0, 1)}, ir::Number{-1.0});
  const V joined = make_int(OpKind::cat, {b, s + 1}, DType::i64, {before, positions_});
  const V steps =
      make_int(OpKind::add, {b, s}, DType::i64,
               {p_.narrow(joined, last, 1, s), p_.narrow(joined, last, 0, s)}, ir::Add{-1.0});
  const V jumps = make_int(OpKind::compare, {b, s}, DType::u8, {steps},
                           ir::Compare{1.0, Comparison::not_equal});
  const V packed = make_int(OpKind::cumsum, {b, s}, DType::i64, {jumps});
  const V none_packed =
      make_int(OpKind::compare, {b}, DType::u8, {p_.narrow(packed, last, s - 1, 1)},
               ir::Compare{0.0, Comparison::not_equal});
  make_int(OpKind::sum, {}, DType::u8, {none_packed});
  hold({before, steps});
  return config_.run.packing > 1 || positions_jump() ? packed : ir::no_id;
}

/// Of a ring's ranks all but the last have two chunks with others between them.
bool Lowering::positions_jump() const {
  return config_.layout.cp > 1 && !config_.layout.ulysses() &&
         config_.layout.context_rank() + 1 < config_.layout.cp;
}

/// x[batch_idx, token_idx]: the index of the batch, expanded, is copied to strides like the other's
/// (aten/src/ATen/native/TensorAdvancedIndexing.cpp, v2.11, AdvancedIndex).
ir::ValueId Lowering::of_tokens(V x, V batch, const Shape& size) {
  const V copied = make_int(OpKind::clone, size, DType::i64, {batch});
  return make_int(OpKind::index, size, DType::i64, {x, copied});
}

/// sdpa_mask: what a query may see, boolean. `window`: tokens that it sees, itself included; none:
/// all before it. `packed`: the document of each token, or no_id.
ir::ValueId Lowering::allowed_positions(std::optional<std::int64_t> window, V packed) {
  leaf_ = Module::root;
  const std::int64_t b = config_.run.batch, s = config_.run.seq;
  const std::int64_t seen = s + config_.adapters.prefix_tokens();
  const Shape square{packed == ir::no_id ? 1 : b, 1, s, seen}, column{s, 1};
  const auto boolean = [&](Comparison how, V x, V y) {
    return make_int(OpKind::compare, square, DType::u8, {x, y}, ir::Compare{0.0, how});
  };
  const V batch = make_int(OpKind::arange, {b}, DType::i64, {});
  const V heads = make_int(OpKind::arange, {1}, DType::i64, {});
  const auto tokens = [&](std::int64_t n) {
    return make_int(OpKind::add_scalar, {n}, DType::i64,
                    {make_int(OpKind::arange, {n}, DType::i64, {})});
  };
  const V queries = tokens(s), keys = tokens(seen);
  V allowed{};
  if (packed != ir::no_id) {  // packed_sequence_compatibility_function
    const V all = make_int(OpKind::fill, {}, DType::u8, {}, ir::Number{1.0});
    const Shape of_queries{b, 1, s, 1}, of_keys{b, 1, 1, s};
    const V query_document = of_tokens(packed, batch, of_queries);
    const V key_document = of_tokens(packed, batch, of_keys);
    const V together =
        boolean(Comparison::both, all, boolean(Comparison::equal, query_document, key_document));
    const V query_position = of_tokens(positions_, batch, of_queries);
    const V key_position = of_tokens(positions_, batch, of_keys);
    const auto causal = [&] {
      return boolean(Comparison::less_equal, key_position, query_position);
    };
    if (window && positions_jump()) {  // of a packed row its five launches are not planned
      const V every = make_int(OpKind::fill, {}, DType::u8, {}, ir::Number{1.0});
      const V oldest = make_int(OpKind::add_scalar, of_queries, DType::i64, {query_position},
                                ir::Number{-static_cast<double>(*window)});
      const V recent =
          boolean(Comparison::both, every, boolean(Comparison::greater, key_position, oldest));
      allowed = boolean(Comparison::both, together, boolean(Comparison::both, recent, causal()));
    } else {
      allowed = boolean(Comparison::both, together, causal());
    }
    hold({packed});
  } else if (window && spec_.attention_chunk > 0) {
    allowed = within_chunk(batch, queries, keys);
  } else if (window) {
    const V all = make_int(OpKind::fill, {}, DType::u8, {}, ir::Number{1.0});
    const V oldest = make_int(OpKind::add_scalar, column, DType::i64, {queries},
                              ir::Number{-static_cast<double>(*window)});
    const V recent = boolean(Comparison::greater, keys, oldest);
    const V within = boolean(Comparison::both, all, recent);
    allowed = boolean(Comparison::both, within,
                      boolean(Comparison::less_equal, keys, p_.reshape(queries, column)));
  } else {
    allowed = boolean(Comparison::less_equal, keys, p_.reshape(queries, column));
  }
  hold({batch, heads, queries, keys});
  return allowed;
}

/// chunked_overlay: positions less what a row is padded by on its left, divided by a chunk's
/// tokens; (B, 1, S, S).
ir::ValueId Lowering::within_chunk(V batch, V queries, V keys) {
  const std::int64_t b = config_.run.batch, s = config_.run.seq;
  const Shape square{1, 1, s, s}, of_rows{b, 1, s, s};
  const auto both = [&](const Shape& size, Comparison how, V x, V y) {
    return make_int(OpKind::compare, size, DType::u8, {x, y}, ir::Compare{0.0, how});
  };
  const V all = make_int(OpKind::fill, {}, DType::u8, {}, ir::Number{1.0});
  const auto chunk_of = [&](V positions, const Shape& size) {
    const V padded = make_int(OpKind::index, {b, 1, 1, 1}, DType::i64, {left_padding_, batch});
    const V own = make_int(OpKind::add, size, DType::i64, {positions, padded}, ir::Add{-1.0});
    return make_int(OpKind::floor_divide, size, DType::i64, {own},
                    ir::FloorDivide{static_cast<std::int32_t>(spec_.attention_chunk)});
  };
  const V of_keys = chunk_of(keys, {b, 1, 1, s}), of_queries = chunk_of(queries, {b, 1, s, 1});
  const V together = both(of_rows, Comparison::equal, of_keys, of_queries);
  const V within = both(of_rows, Comparison::both, all, together);
  const V before = both(square, Comparison::less_equal, keys, p_.reshape(queries, {s, 1}));
  return both(of_rows, Comparison::both, within, before);
}

/// 0 where a query may look, the lowest number elsewhere.
ir::ValueId Lowering::additive_mask(V allowed, DType type, const Shape& size) {
  const V zero = make_int(OpKind::fill, {}, type, {});
  const double lowest = type == DType::bf16 ? -0x1.FEp127  // torch.finfo(torch.bfloat16).min
                        : type == DType::f16
                            ? -65504.0
                            : static_cast<double>(std::numeric_limits<float>::lowest());
  const V least = make_int(OpKind::fill, {}, type, {}, ir::Number{lowest});
  return make_int(OpKind::masked_fill, size, type, {allowed, zero, least});
}

/// _ignore_causal_mask_sdpa: a window that is longer than the sequence needs no mask. References
/// under a dispatch mode have none (tests/oracle/training_step.py), the trainer has no windows.
bool Lowering::masks_window(std::int64_t window) const {
  return window > 0 && window <= config_.run.seq && sdpa_makes_masks();
}

bool Lowering::sdpa_makes_masks() const {
  return !eager_attention_ && config_.runtime.kind == Runtime::pytorch &&
         !config_.runtime.under_dispatch_mode;
}

/// Which masks the model makes before its blocks: one, or with sliding windows in some, two.
void Lowering::causal_masks() {
  const bool ring = config_.layout.cp > 1 && !config_.layout.ulysses();
  if (ring && !model::rings_by_automodel(config_))
    return;  // a ring is told of causality, and takes no mask
  // hf_utils.py, _build_or_reuse_pp_causal_mask: a stage makes its mask once, and flash takes none
  if (infers_documents(config_) && config_.layout.pp > 1) return;
  const bool trained = config_.runtime.kind == Runtime::ac_trainer && !is_packed();
  if (!eager_attention_ && !spec_.always_masked && (trained || config_.runtime.under_dispatch_mode))
    return;
  std::int64_t window = 0;
  bool any_full = false;
  for (std::int64_t w : spec_.window)
    if (w > 0)
      window = w;
    else
      any_full = true;
  const Shape square{config_.run.batch, 1, config_.run.seq, config_.run.seq};
  const model::ClassFacts& facts = model::class_facts(spec_.family);
  const bool chunks = spec_.attention_chunk > 0;  // then both, whatever blocks need
  if (chunks) window = spec_.attention_chunk;
  const auto mask = [&](std::optional<std::int64_t> w) {
    V packed = ir::no_id;
    const bool cached = config_.adapters.prefix_tokens() > 0;
    if (!spec_.masked_positions && !spec_.no_packed_check && !cached && !counts_grids())
      packed = packed_sequence_check();
    if (chunks && w)
      left_padding_ = make_int(OpKind::fill, {config_.run.batch}, DType::i64, {}, ir::Number{0.0});
    if (is_varlen() || is_of_package()) return ir::no_id;
    if (eager_attention_) return additive_mask(allowed_positions(w, packed), dtype_, square);
    const bool within = w && *w <= config_.run.seq && sdpa_makes_masks();
    return within || cached || spec_.always_masked || packed != ir::no_id
               ? allowed_positions(w, packed)
               : ir::no_id;
  };
  if (spec_.window.empty() || any_full || chunks || facts.both_masks) full_mask_ = mask({});
  if (window > 0)
    window_mask_ = mask(window);
  else if (facts.idle_mask)
    window_mask_ = mask(0);
}

}  // namespace ac_advisor::passes
