#include "expressions.hpp"

#include <algorithm>

namespace ac_advisor::passes::compile {
namespace {

/// torch/_inductor/config.py (v2.11): realize_reads_threshold, realize_acc_reads_threshold,
/// realize_opcount_threshold.
constexpr std::int64_t most_reads_of_reused = 4, most_reads = 8, most_ops = 30;

/// What an op's lowering writes beside its operands (torch/_inductor/lowering.py, v2.11): a number
/// is a constant and an op; pointwise_cat and slice_scatter compare the index, mask and choose.
std::int64_t ops_of(const Node& node) {
  switch (node.target) {
    case Target::cat:
      return 3 + 2 * static_cast<std::int64_t>(node.inputs.size());
    case Target::slice_scatter:
    case Target::pad:  // index and length as expressions, which is less, and what is there masked
      return 4;
    case Target::sum:
      return node.index - 1;  // of a group's heads, unrolled
    case Target::clone:
      return 0;
    case Target::add:
    case Target::sub:
    case Target::mul:
    case Target::div:
      return node.inputs.size() == 1 ? 2 : 1;
    default:
      return 1;
  }
}

}  // namespace

std::uint64_t Expressions::mixed(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6U) + (a >> 2U);
  return a * 0xff51afd7ed558ccdULL;
}

Expressions::Terms Expressions::part(Terms terms, std::int64_t start) const {
  for (Term& term : terms)
    if (term.along != Along::nowhere)
      term.id =
          mixed(term.id, term.along == Along::halves ? 1 : 2 + static_cast<std::uint64_t>(start));
  std::sort(terms.begin(), terms.end());
  return terms;
}

void Expressions::join(Terms& into, const Terms& from) {
  if (into.empty()) {
    into = from;
    return;
  }
  both_.clear();
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(both_));
  if (both_.size() > into.size()) into = both_;
}

void Expressions::add(Terms& terms, NodeId n, std::int64_t count) const {
  const Node& node = g_.node(n);
  Along along = Along::all;
  if (node.shape.rank() == 0 || node.shape.back() == 1 || node.target == Target::iota ||
      node.target == Target::full)
    along = Along::nowhere;
  else if (!terms.empty() && std::all_of(terms.begin(), terms.end(),
                                         [](const Term& term) { return term.along != Along::all; }))
    along = std::all_of(terms.begin(), terms.end(),
                        [](const Term& term) { return term.along == Along::nowhere; })
                ? Along::nowhere
                : Along::halves;
  for (std::int64_t i = 0; i < count; ++i) {
    const Term term{mixed(static_cast<std::uint64_t>(n) + 1, static_cast<std::uint64_t>(i)), false,
                    along};
    terms.insert(std::lower_bound(terms.begin(), terms.end(), term), term);
  }
}

void Expressions::load(NodeId n) {
  const bool narrow = g_.node(n).shape.rank() == 0 || g_.node(n).shape.back() == 1;
  terms_[static_cast<std::size_t>(n)] = {
      {mixed(static_cast<std::uint64_t>(n) + 1, 1000), true, narrow ? Along::nowhere : Along::all}};
}

void Expressions::write(NodeId n) {
  const Node& node = g_.node(n);
  Terms terms;
  const auto at = [](NodeId in) { return static_cast<std::size_t>(in); };
  switch (node.target) {
    case Target::slice:
      terms = part(of(node.inputs[0]), node.index);
      break;
    case Target::cat:
    case Target::slice_scatter: {
      std::int64_t start = 0;
      for (NodeId in : node.inputs) {
        join(terms, part(terms_[at(in)], 1000 + start));
        start += 1;
      }
      add(terms, n, ops_of(node));
      break;
    }
    case Target::sum:
      for (std::int64_t head = 0; head < node.index; ++head)
        join(terms, part(of(node.inputs[0]), 2000 + head));
      add(terms, n, ops_of(node));
      break;
    default:
      for (NodeId in : node.inputs) join(terms, of(in));
      if (row(node.target).view) break;
      if (node.target == Target::clone && node.shape.rank() == 4 && node.shape[2] == 2 &&
          g_.node(node.inputs[0]).target == Target::expand)
        for (Term& term : terms)
          if (term.along == Along::all) term.along = Along::halves;
      add(terms, n, ops_of(node));
      break;
  }
  terms_[at(n)] = std::move(terms);
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
