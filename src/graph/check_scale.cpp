#include "check_scale.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lifetimes.hpp"
#include "splice.hpp"

namespace ac_advisor::graph {
namespace {

constexpr std::int64_t most_of_size = std::int64_t{1} << 31;
constexpr std::int64_t most_power = 8, most_multiple = 1 << 20;
constexpr std::size_t most_programs = 64, most_terms = 16;

struct Found {
  ScaleFault fault;
};

[[noreturn]] void fail(std::string where, std::string what) {
  throw Found{{"scale." + std::move(where), std::move(what)}};
}

void below(Index index, std::size_t end, const char* of, const std::string& where) {
  if (static_cast<std::size_t>(index) >= end)
    fail(where, fmt::format("{} must be a {} below {}", index, of, end));
}

void check_sizes(const std::vector<Size>& sizes, const std::string& where) {
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (const std::int64_t one : {sizes[i].batch, sizes[i].seq})
      if (one < 1 || one > most_of_size)
        fail(fmt::format("{}[{}]", where, i), "must be a batch and a sequence of 1 or more");
}

void check_form(const Form& form, const std::string& where) {
  if (form.terms.empty() && form.points.empty() && !form.reduction)
    fail(where, "has neither terms nor points");
  if (form.reduction) {
    const auto& [unit, per, most] = *form.reduction;
    if (unit < 0 || unit > most_bytes || per < 1 || per > most_multiple || most < 0 ||
        most > most_of_size)
      fail(where + ".reduction", "must be bytes, tokens and blocks");
  }
  if (form.terms.size() > most_terms) fail(where, "has more terms than a form has");
  if (form.over < 1) fail(where + ".over", "must be 1 or more");
  for (const std::int64_t multiple : {form.ceil, form.floor})
    if (multiple < 1 || multiple > most_multiple)
      fail(where, "rounds to what is no multiple of a sequence");
  for (const Form::Term& term : form.terms)
    if (term.b < 0 || term.s < 0 || term.b > most_power || term.s > most_power)
      fail(where + ".terms", fmt::format("has a power that is not 0 to {}", most_power));
  for (std::size_t i = 0; i < form.points.size(); ++i) {
    const Form::Point& point = form.points[i];
    const std::string place = fmt::format("{}.points[{}]", where, i);
    if (point.size.batch < 1 || point.size.seq < 1 || point.size.batch > most_of_size ||
        point.size.seq > most_of_size || point.value < 0)
      fail(place, "must be a batch, a sequence and a value");
  }
}

class Checker {
 public:
  explicit Checker(const Graph& graph) : g_(graph), s_(*graph.scale) {}

  void run() const {
    if (s_.seq_step < 1 || s_.seq_step > most_of_size) fail("seq_step", "must be 1 or more");
    if (s_.batch_from < 1 || s_.batch_from > most_of_size) fail("batch_from", "must be 1 or more");
    check_sizes(s_.sizes, "sizes");
    check_sizes(s_.held_out, "held_out");
    if (s_.sizes.empty() || s_.sizes.front() != Size{g_.batch, g_.seq})
      fail("sizes", "must begin with the graph's batch and seq");
    for (std::size_t f = 0; f < s_.forms.size(); ++f)
      check_form(s_.forms[f], fmt::format("forms[{}]", f));
    form(s_.tokens, "tokens");
    if (s_.forms[static_cast<std::size_t>(s_.tokens)].terms.empty())
      fail("tokens", "must be a form that has terms");
    for (std::size_t i = 0; i < s_.storages.size(); ++i) {
      const std::string where = fmt::format("storages[{}]", i);
      below(s_.storages[i][0], g_.storages.size(), "storage", where);
      form(s_.storages[i][1], where);
    }
    for (std::size_t i = 0; i < s_.tensors.size(); ++i) {
      const auto& [tensor, dimension, number] = s_.tensors[i];
      const std::string where = fmt::format("tensors[{}]", i);
      below(tensor, g_.tensors.size(), "tensor", where);
      below(dimension, g_.tensors[static_cast<std::size_t>(tensor)].shape.size(), "dimension",
            where);
      form(number, where);
    }
    for (std::size_t m = 0; m < s_.micro_batches.size(); ++m)
      op_forms(s_.micro_batches[m], g_.micro_batches[m].ops, fmt::format("micro_batches[{}]", m));
    if (s_.programs.size() > most_programs) fail("programs", "has more than sizes were captured");
    for (std::size_t p = 0; p < s_.programs.size(); ++p)
      program(s_.programs[p], fmt::format("programs[{}]", p));
  }

 private:
  void form(Index number, const std::string& where) const {
    below(number, s_.forms.size(), "form", where);
  }

  void op_forms(const OpForms& forms, const std::vector<Op>& ops, const std::string& where) const {
    for (const OpForms::OfProduct& one : forms.products) {
      below(one[0], ops.size(), "op", where + ".products");
      if (!ops[static_cast<std::size_t>(one[0])].product)
        fail(where + ".products", fmt::format("names op {}, which is no product", one[0]));
      for (std::size_t k = 1; k < one.size(); ++k) form(one[k], where + ".products");
    }
    for (const auto& [list, name] :
         {std::pair{&forms.flops, ".flops"}, {&forms.launches, ".launches"}})
      for (const OpForms::OfOp& one : *list) {
        below(one[0], ops.size(), "op", where + name);
        form(one[1], where + name);
      }
  }

  void program(const Program& program, const std::string& where) const {
    if (program.sizes.empty()) fail(where + ".sizes", "has none");
    check_sizes(program.sizes, where + ".sizes");
    Lifetimes lifetimes(g_);
    for (std::size_t m = 0; m < program.micro_batches.size(); ++m) {
      const std::string place = fmt::format("{}.micro_batches[{}]", where, m);
      runs(program.micro_batches[m].runs, g_.micro_batches[m].ops.size(), place + ".runs");
      const MicroBatch micro = spliced(g_.micro_batches[m], program.micro_batches[m].runs);
      in_order(micro, lifetimes, place);
      op_forms(program.micro_batches[m].forms, micro.ops, place);
    }
  }

  /// Each where the one before it ends, or later, with references that are in range.
  void runs(const std::vector<Run>& list, std::size_t ops, const std::string& where) const {
    std::int64_t end = 0;
    for (std::size_t r = 0; r < list.size(); ++r) {
      const Run& run = list[r];
      const std::string place = fmt::format("{}[{}]", where, r);
      const std::int64_t last = std::int64_t{run.at} + run.count;
      if (run.at < end || run.count < 0 || last > static_cast<std::int64_t>(ops))
        fail(place, "is no part of the ops, after the one before it");
      end = last;
      for (std::size_t i = 0; i < run.ops.size(); ++i)
        references(run.ops[i], fmt::format("{}.ops[{}]", place, i));
    }
  }

  void references(const Op& op, const std::string& where) const {
    below(op.module, g_.modules.size(), "module", where);
    for (const Index tensor : op.in) below(tensor, g_.tensors.size(), "tensor", where);
    for (const Indices* list : {&op.out, &op.frees, &op.drops})
      for (const Index storage : *list) below(storage, g_.storages.size(), "storage", where);
    if (op.in.size() + op.out.size() > most_operands)
      fail(where, fmt::format("has more than {} operands", most_operands));
  }

  static void in_order(const MicroBatch& micro, Lifetimes& lifetimes, const std::string& where) {
    Phase phase = Phase::forward;
    for (std::size_t i = 0; i < micro.ops.size(); ++i) {
      const Op& op = micro.ops[i];
      const auto wrong = [&](const std::string& what) {
        fail(where, fmt::format("op {} of the program: {}", i, what));
      };
      if (op.phase < phase) wrong("comes after a later phase");
      phase = op.phase;
      if (op.forward >= 0 &&
          (op.phase != Phase::backward || static_cast<std::size_t>(op.forward) >= i ||
           micro.ops[static_cast<std::size_t>(op.forward)].phase == Phase::backward))
        wrong("\"forward\" must be an op before the backward");
      if (const Fault fault = lifetimes.run(op)) wrong(fault.what);
    }
    for (const Gradient& gradient : micro.gradients)
      if (static_cast<std::size_t>(gradient.whole) >= micro.ops.size())
        fail(where, "leaves no op after which a gradient is whole");
    if (const Fault fault = lifetimes.end(micro)) fail(where, fault.field + (" " + fault.what));
  }

  const Graph& g_;
  const Scale& s_;
};

}  // namespace

ScaleFault fault_of_scale(const Graph& graph) {
  if (!graph.scale) return {};
  try {
    Checker(graph).run();
    return {};
  } catch (const Found& found) {
    return found.fault;
  }
}

}  // namespace ac_advisor::graph
