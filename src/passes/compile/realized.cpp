#include "realized.hpp"

#include <algorithm>

namespace ac_advisor::passes::compile {
namespace {

/// config.py: unroll_reductions_threshold
constexpr std::int64_t least_reduction = 8;

}  // namespace

Realized::Realized(const JointGraph& graph, std::span<const NodeId> given,
                   std::span<const NodeId> results)
    : g_(graph),
      given_(graph.nodes.size(), false),
      realized_(graph.nodes.size(), false),
      at_once_(graph.nodes.size(), false),
      needed_(graph.nodes.size(), false),
      is_result_(graph.nodes.size(), false) {
  for (NodeId n : given) given_[at(n)] = true;
  for (NodeId n : results)
    if (n >= 0) is_result_[at(buffer(n))] = true;
  find_needed(results);
  realize(results);
  realize_large();
}

bool Realized::is_view(NodeId n) const {
  const Target t = node(n).target;
  return row(t).view || (t == Target::getitem && node(node(n).inputs[0]).target == Target::split);
}

bool Realized::is_generated_sort(NodeId n) const {
  constexpr std::int64_t most_sorted = 512;
  return node(n).target == Target::sort && node(n).shape.numel() <= most_sorted;
}

bool Realized::is_library(NodeId n) const {
  if (is_generated_sort(n)) return false;
  const Target t = node(n).target;
  return t == Target::mm || t == Target::addmm || t == Target::scaled_mm || t == Target::seeds ||
         is_attention(t) || t == Target::topk || t == Target::sort || t == Target::histc ||
         t == Target::grouped_mm || t == Target::empty || is_collective(t) || is_of_four_bits(t) ||
         is_complex(t);
}

bool Realized::is_moment(NodeId n) const {
  if (is_given(n) || node(n).target != Target::getitem) return false;
  const NodeId both = node(n).inputs[0];
  return node(both).target == Target::var_mean || is_generated_sort(both);
}

bool Realized::is_output(NodeId n) const {
  return node(n).target == Target::getitem && !is_view(n) && !is_moment(n);
}

NodeId Realized::buffer(NodeId n) const {
  while (!is_given(n) && is_view(n)) n = node(n).inputs[0];
  return n;
}

bool Realized::is_of_columns(NodeId n) const {
  const Node& made = node(n);
  if (made.shape.rank() != 2) return false;
  NodeId in = made.inputs[0];
  if (node(in).target == Target::abs) in = node(in).inputs[0];
  const bool transposed = !is_given(in) && node(in).target == Target::permute;
  const bool across = made.shape[0] == 1 && made.shape[1] > 1;
  const bool of_rows = made.shape[1] == 1 && made.shape[0] > 1;
  return transposed ? of_rows : across;
}

Sort Realized::sort_of(NodeId n) const {
  const Node& made = node(n);
  if (is_library(n)) return Sort::library;
  if (made.target == Target::max) return Sort::row_sum;
  if (made.target == Target::mean || made.target == Target::cumsum || is_moment(n))
    return Sort::row_sum;
  if (made.target != Target::sum && made.target != Target::amax) return Sort::pointwise;
  if (made.index > 0)  // of a group's heads, of a token's experts, of few columns
    return made.index < least_reduction ? Sort::pointwise : Sort::row_sum;
  if (made.target == Target::amax) return is_of_columns(n) ? Sort::column_sum : Sort::row_sum;
  return made.shape.rank() == 0 || made.shape.back() == 1 ? Sort::row_sum : Sort::column_sum;
}

void Realized::find_needed(std::span<const NodeId> results) {
  for (NodeId n : results)
    if (n >= 0) needed_[at(n)] = true;
  for (NodeId n = g_.size(); n-- > 0;) {
    if (!needed_[at(n)] || is_given(n)) continue;
    for (NodeId in : node(n).inputs) needed_[at(in)] = true;
  }
}

/// lowering.py: constrain_to_fx_strides. What is not in memory is copied for each call, so only the
/// copies (with_float8_forms) and scales are asked for.
bool Realized::is_asked_of_float8(NodeId n) const {
  return node(n).dtype != DType::f8 || node(n).target == Target::copy;
}

void Realized::realize(std::span<const NodeId> results) {
  const auto mark = [&](NodeId n) {
    if (!is_given(n)) realized_[at(n)] = true;
  };
  for (NodeId n : results)
    if (n >= 0) mark(buffer(n));
  for (NodeId n = 0; n < g_.size(); ++n) {
    if (!needed_[at(n)] || is_given(n)) continue;
    const Sort sort = sort_of(n);
    if (sort == Sort::library)
      for (NodeId in : node(n).inputs)
        if (node(n).target != Target::scaled_mm || is_asked_of_float8(in)) mark(buffer(in));
    if (adds_into(node(n).target)) {  // a buffer that is there
      mark(buffer(node(n).inputs[0]));
      mark(n);
    }
    // Random numbers are realized by their lowering (inductor_random).
    if (sort != Sort::pointwise || is_output(n) || node(n).target == Target::random) mark(n);
  }
}

/// lowering.py: expand, "maybe realize input before broadcasting it".
void Realized::realize_before_broadcast(NodeId n, Expressions& expressions) {
  const NodeId in = node(n).inputs[0], whole = buffer(in);
  if (node(n).shape.numel() == node(in).shape.numel() || is_given(whole) || realized(whole) ||
      sort_of(whole) != Sort::pointwise || !expressions.realized_on_reuse(in))
    return;
  realized_[at(whole)] = true;
  expressions.load(whole);
  expressions.load(in);
}

/// What is in memory because its readers would compute too much again (graph.py: run_node).
void Realized::realize_large() {
  Expressions expressions(g_);
  for (NodeId n = 0; n < g_.size(); ++n) {
    if (!needed_[at(n)] && !is_given(n)) continue;
    if (is_given(n) || sort_of(n) != Sort::pointwise) {
      expressions.load(n);
      continue;
    }
    const bool asked = realized(n);
    if (!asked && node(n).target == Target::expand) realize_before_broadcast(n, expressions);
    expressions.write(n);
    const auto& users = node(n).users;
    const auto readers = std::count_if(users.begin(), users.end(), [&](NodeId user) {
      return needed_[at(user)] && !is_given(user);
    });
    const bool reused = readers > 1 && expressions.realized_on_reuse(n);
    const bool large = reused || (!is_view(n) && expressions.exceeds(n));
    const NodeId whole = buffer(n);
    if (large && !is_given(whole) && sort_of(whole) == Sort::pointwise) {
      realized_[at(whole)] = true;
      at_once_[at(whole)] = true;
    }
    // DoRA's gradient, which is scaled once for two readers, is loaded by all from here on. Of
    // other views of what is large the compared steps say otherwise.
    const bool scaled = std::any_of(users.begin(), users.end(), [this](NodeId user) {
      return node(user).target == Target::mul && node(user).users.size() > 1;
    });
    const bool copied = node(whole).target == Target::clone && scaled;
    if (asked || (large && (whole == n || copied))) expressions.load(n);
  }
}

}  // namespace ac_advisor::passes::compile
