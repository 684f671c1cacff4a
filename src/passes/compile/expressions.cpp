#include "expressions.hpp"

#include <algorithm>

#include "bits_of.hpp"

namespace ac_advisor::passes::compile {
namespace {

/// torch/_inductor/config.py (v2.11): realize_reads_threshold, realize_acc_reads_threshold,
/// realize_opcount_threshold.
constexpr std::int64_t most_reads_of_reused = 4, most_reads = 8, most_ops = 30;

/// What an op's lowering writes of its own beside operands and numbers
/// (torch/_inductor/lowering.py, v2.11).
std::int64_t ops_of(const Node& node) {
  switch (node.target) {
    case Target::pad:  // index and length as expressions, which is less, and what is there masked
      return 4;
    case Target::sum:
    case Target::amax:
      return node.index - 1;  // of a group's heads, unrolled
    case Target::clone:
    case Target::copy:
      return 0;
    case Target::pow:  // pow_recursive
      return node.number == 1 ? 0 : node.number == 3 ? 2 : 1;
    default:
      return 1;
  }
}

/// Whether its second operand is a number, which is a constant of its own.
bool has_number(const Node& node) {
  switch (node.target) {
    case Target::add:
    case Target::sub:
    case Target::mul:
    case Target::div:
    case Target::clamp_min:
    case Target::clamp_max:
      return node.inputs.size() == 1;
    case Target::compare:
    case Target::greater:
      return node.inputs.size() == 1;
    default:
      return false;
  }
}

constexpr std::uint64_t of_bounds = 11, of_constants = 12, of_place = 13;

}  // namespace

std::uint64_t Expressions::mixed(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6U) + (a >> 2U);
  return a * 0xff51afd7ed558ccdULL;
}

Expressions::Terms Expressions::elsewhere(Terms terms, std::uint64_t which) {
  for (Term& term : terms) {
    if (term.along == Along::nowhere) continue;
    const bool halves = term.along == Along::halves;
    term.base = mixed(mixed(term.base, static_cast<std::uint64_t>(term.shift)), halves ? 1 : which);
    term.shift = 0;
  }
  std::sort(terms.begin(), terms.end());
  return terms;
}

Expressions::Terms Expressions::shifted(Terms terms, std::int64_t by) {
  for (Term& term : terms)
    if (term.along == Along::all)
      term.shift += by;
    else if (term.along == Along::halves)
      term.base = mixed(term.base, 1);
  std::sort(terms.begin(), terms.end());
  return terms;
}

void Expressions::join(Terms& into, const Terms& from) {
  if (into.empty()) {
    into = from;
    return;
  }
  Terms both;
  both.reserve(into.size() + from.size());
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(both));
  into = std::move(both);
}

void Expressions::add(Terms& terms, const Term& term) {
  const auto at = std::lower_bound(terms.begin(), terms.end(), term);
  if (at == terms.end() || !(*at == term)) terms.insert(at, term);
}
void Expressions::add_place(Terms& terms) { add(terms, {.base = mixed(of_place, 0)}); }
void Expressions::add_bound(Terms& terms, std::int64_t bound) {
  add(terms,
      {.base = mixed(of_bounds, static_cast<std::uint64_t>(bound)), .along = Along::nowhere});
}
void Expressions::add_constant(Terms& terms, double number, DType type) {
  const std::uint64_t of_type = mixed(of_constants, static_cast<std::uint64_t>(type));
  add(terms, {.base = mixed(of_type, bits_of(number)), .along = Along::nowhere});
}

void Expressions::add_own(Terms& terms, NodeId n, std::int64_t count) const {
  const Node& node = g_.node(n);
  Along along = Along::all;
  if (node.shape.rank() == 0 || node.shape.back() == 1 || node.target == Target::iota)
    along = Along::nowhere;
  else if (!terms.empty() && std::all_of(terms.begin(), terms.end(),
                                         [](const Term& term) { return term.along != Along::all; }))
    along = std::all_of(terms.begin(), terms.end(),
                        [](const Term& term) { return term.along == Along::nowhere; })
                ? Along::nowhere
                : Along::halves;
  for (std::int64_t i = 0; i < count; ++i)
    add(terms, {.base = mixed(static_cast<std::uint64_t>(n) + 1, static_cast<std::uint64_t>(i)),
                .along = along});
}

void Expressions::load(NodeId n) {
  const bool narrow = g_.node(n).shape.rank() == 0 || g_.node(n).shape.back() == 1;
  terms_[static_cast<std::size_t>(n)] = {{.base = mixed(static_cast<std::uint64_t>(n) + 1, 1000),
                                          .is_load = true,
                                          .along = narrow ? Along::nowhere : Along::all}};
}

/// pointwise_cat: the place is compared with both ends of each operand.
Expressions::Terms Expressions::joined(NodeId n) const {
  constexpr std::uint64_t identity = 1000;
  const Node& node = g_.node(n);
  Terms terms;
  std::int64_t start = 0;
  add_place(terms);
  add_constant(terms, 0, DType::i64);
  for (NodeId in : node.inputs) {
    join(terms, elsewhere(of(in), identity + static_cast<std::uint64_t>(start)));
    start += g_.node(in).shape.back();
    add_bound(terms, start);
  }
  const auto parts = static_cast<std::int64_t>(node.inputs.size());
  // Two comparisons and what is loaded under them a part; both of them between the ends; choices.
  add_own(terms, n, 3 * parts + (parts - 2) + (parts - 1));
  return terms;
}

/// slice_scatter: the place is compared with where the part begins and ends.
Expressions::Terms Expressions::scattered(NodeId n) const {
  const Node& node = g_.node(n);
  const bool every_second = node.number > 0;
  const std::int64_t width = g_.node(node.inputs[1]).shape.back(), start = node.index;
  Terms terms = of(node.inputs[0]);
  join(terms, every_second ? elsewhere(of(node.inputs[1]), 3 + static_cast<std::uint64_t>(start))
                           : shifted(of(node.inputs[1]), -start));
  add_place(terms);
  std::int64_t conditions = 0;
  if (start > 0) {
    add_bound(terms, start);
    ++conditions;
  }
  if (!every_second && start + width < node.shape.back()) {
    add_bound(terms, start + width);
    ++conditions;
  }
  std::int64_t own = 0;
  if (every_second) {  // the remainder
    add_constant(terms, 0, DType::i64);
    ++conditions;
    ++own;
  }
  add_own(terms, n, own + 2 * conditions - 1 + 2);  // with what joins them; a load, a choice
  return terms;
}

void Expressions::write(NodeId n) {
  const Node& node = g_.node(n);
  Terms terms;
  switch (node.target) {
    case Target::slice:
      terms = node.number > 0
                  ? elsewhere(of(node.inputs[0]), 5 + static_cast<std::uint64_t>(node.index))
                  : shifted(of(node.inputs[0]), node.index);
      break;
    case Target::select:
      terms = elsewhere(of(node.inputs[0]), 7 + static_cast<std::uint64_t>(node.index));
      break;
    case Target::cat:
      terms = joined(n);
      break;
    case Target::index:
    case Target::gather:  // at places that are loaded
      terms = elsewhere(of(node.inputs[0]), 3000 + static_cast<std::uint64_t>(n));
      for (std::size_t i = 1; i < node.inputs.size(); ++i) join(terms, of(node.inputs[i]));
      add_own(terms, n, 1);
      break;
    case Target::slice_scatter:
      terms = scattered(n);
      break;
    case Target::full:
      add_constant(terms, node.number, node.dtype);
      break;
    case Target::amax:
    case Target::sum:
      for (std::int64_t head = 0; head < node.index; ++head)
        join(terms, elsewhere(of(node.inputs[0]), 2000 + static_cast<std::uint64_t>(head)));
      add_own(terms, n, ops_of(node));
      break;
    default:
      for (NodeId in : node.inputs) join(terms, of(in));
      if (row(node.target).view) break;
      if (node.target == Target::clone && g_.node(node.inputs[0]).target == Target::expand &&
          ((node.shape.rank() == 4 && node.shape[2] == 2) ||
           (node.shape.rank() == 5 && node.shape[4] == 2)))
        for (Term& term : terms)
          if (term.along == Along::all) term.along = Along::halves;
      if (has_number(node)) add_constant(terms, node.number, node.dtype);
      add_own(terms, n, ops_of(node));
      break;
  }
  terms_[static_cast<std::size_t>(n)] = std::move(terms);
}

std::int64_t Expressions::loads(NodeId n) const {
  return std::count_if(of(n).begin(), of(n).end(), [](const Term& term) { return term.is_load; });
}

bool Expressions::realized_on_reuse(NodeId n) const {
  return loads(n) > most_reads_of_reused || static_cast<std::int64_t>(of(n).size()) > most_ops;
}

bool Expressions::exceeds(NodeId n) const {
  return loads(n) > most_reads || static_cast<std::int64_t>(of(n).size()) > most_ops;
}

}  // namespace ac_advisor::passes::compile
