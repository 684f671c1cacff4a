// Whether a program is one: run after every pass in tests and debug builds.
#include "ac_advisor/passes/verify.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

class Structure {
 public:
  explicit Structure(const StepProgram& step)
      : step_(step), p_(step.program), made_(p_.storages.size(), false) {}

  void check() {
    for (std::size_t v = 0; v < p_.values.size(); ++v) check_value(static_cast<ir::ValueId>(v));
    for (std::size_t i = 0; i < p_.ops.size(); ++i) {
      op_ = i;
      check_op(p_.ops[i]);
    }
    check_phases();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::logic_error(op_ < p_.ops.size() ? fmt::format("op {} ({}): {}", op_,
                                                             ir::row(p_.ops[op_].kind).name, what)
                                               : what);
  }

  void check_value(ir::ValueId v) const {
    const ir::Value& value = p_.value(v);
    if (value.base != no_id && (value.base < 0 || at(value.base) >= p_.values.size()))
      fail(fmt::format("value {} views value {}, which is not there", v, value.base));
    if (value.storage < 0 || at(value.storage) >= p_.storages.size())
      fail(fmt::format("value {} is of storage {}, which is not there", v, value.storage));
    if (value.base == no_id || value.narrow_dim < 0) return;
    const ir::Shape& whole = p_.value(value.base).shape;
    const auto dim = static_cast<std::size_t>(value.narrow_dim);
    if (dim >= whole.sizes().size() || value.narrow_start < 0 ||
        value.narrow_start + value.shape[dim] > whole[dim])
      fail(fmt::format("value {} is a part of value {} that it has not", v, value.base));
  }

  void check_op(const ir::Op& op) {
    if (op.first_operand < 0 || at(op.first_operand) + op.inputs + op.outputs > p_.operands.size())
      fail("its operands are not there");
    for (const auto operands : {p_.inputs(op), p_.outputs(op)})
      for (ir::ValueId v : operands)
        if (v < 0 || at(v) >= p_.values.size()) fail(fmt::format("operand {} is not there", v));
    if (op.attributes.index() != ir::row(op.kind).attributes.index())
      fail("has attributes of another kind");
    if (op.forward != no_id && (op.forward < 0 || at(op.forward) >= p_.ops.size()))
      fail(fmt::format("belongs to op {}, which is not there", op.forward));
    for (ir::ValueId v : p_.inputs(op)) {
      const ir::ValueId root = p_.root(v);
      // A hold may come before what it is for: a schedule that moves actions leaves it where it
      // was.
      if (op.kind != ir::OpKind::hold && p_.value(root).producer != no_id &&
          !made_[at(p_.storage_of(v))])
        fail(fmt::format("reads value {}, which op {} makes", v, p_.value(root).producer));
    }
    for (ir::ValueId v : p_.outputs(op)) made_[at(p_.storage_of(v))] = true;
  }

  /// Within a micro-batch that is written out the loss follows the forward, and backward the loss;
  /// an optimizer in backward runs between its ops, and a pipeline's actions are in their own
  /// order.
  void check_phases() {
    if (!step_.ends.empty()) return;
    const auto order = [](ir::Phase phase) {
      return phase == ir::Phase::forward ? 0 : phase == ir::Phase::loss ? 1 : 2;
    };
    std::size_t next = 0;
    int before = 0;
    for (op_ = 0; op_ < p_.ops.size(); ++op_) {
      for (; next < step_.micro_begin.size() && at(step_.micro_begin[next]) == op_; ++next)
        before = 0;
      // A hold is of the phase whose values it keeps, a copy to the host of the one it carries them
      // out of.
      const ir::OpKind kind = p_.ops[op_].kind;
      if (kind == ir::OpKind::hold || kind == ir::OpKind::copy_to_host ||
          kind == ir::OpKind::copy_from_host)
        continue;
      const int now = order(p_.ops[op_].phase);
      if (now < before) fail("is of an earlier phase than the op before it");
      before = now;
    }
  }

  const StepProgram& step_;
  const ir::Program& p_;
  std::vector<bool> made_;  ///< storages
  std::size_t op_ = static_cast<std::size_t>(-1);
};

enum class Life : std::uint8_t { before, alive, ended };

/// What is left is what the step says is left, and what the next step finds under another name has
/// as many bytes. That it ends there is not asked: where a model is one compiled unit, nothing of
/// the program says when the loop lets go of it, and it stays.
void check_end(const StepProgram& step, const std::vector<Life>& life) {
  const ir::Program& p = step.program;
  std::vector<bool> stays(life.size(), false), found(life.size(), false);
  for (const auto* values : {&step.resident, &step.surviving})
    for (const ir::ValueId v : *values) stays[at(p.storage_of(v))] = true;
  for (const Carried& c : step.carried) {
    const ir::StorageId made = p.storage_of(c.made), before = p.storage_of(c.before);
    found[at(before)] = true;
    if (!stays[at(made)])
      throw std::logic_error(
          fmt::format("storage {} is carried, and does not outlive the step", made));
    if (p.storage(made).bytes != p.storage(before).bytes)
      throw std::logic_error(fmt::format("{} bytes are carried as storage {}, {} are found as {}",
                                         p.storage(made).bytes, made, p.storage(before).bytes,
                                         before));
  }
  for (std::size_t s = 0; s < life.size(); ++s) {
    if (life[s] == Life::alive && !stays[s] && !found[s])
      throw std::logic_error(fmt::format("storage {} outlives the step, which does not say so", s));
    if (life[s] == Life::ended && stays[s])
      throw std::logic_error(fmt::format("storage {} is to outlive the step, and ends in it", s));
  }
}

}  // namespace

bool& verifies_passes() {
#ifdef NDEBUG
  static bool verifies = false;
#else
  static bool verifies = true;
#endif
  return verifies;
}

void verify(const StepProgram& step) { Structure(step).check(); }

void verify(const StepProgram& step, const Schedule& schedule) {
  const ir::Program& p = step.program;
  std::vector<Life> life(p.storages.size(), Life::before);
  const auto begin = [&](ir::StorageId s) { life[at(s)] = Life::alive; };
  for (ir::StorageId s : schedule.resident) begin(s);
  for (ir::StorageId s : schedule.carried) begin(s);
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    const auto fail = [&](ir::StorageId s, const char* what) {
      throw std::logic_error(
          fmt::format("op {} ({}): storage {} {}", i, ir::row(op.kind).name, s, what));
    };
    for (ir::ValueId v : p.inputs(op)) {
      const ir::StorageId s = p.storage_of(v);
      if (life[at(s)] == Life::ended) fail(s, "is read after its end");
      if (op.kind != ir::OpKind::hold && life[at(s)] == Life::before &&
          p.value(p.root(v)).producer != no_id)
        fail(s, "is read before it begins");
      begin(s);  // what exists before the step and is not said to be resident
    }
    for (ir::ValueId v : p.outputs(op)) {
      const ir::StorageId s = p.storage_of(v);
      if (life[at(s)] == Life::ended) fail(s, "begins a second time");
      begin(s);
    }
    for (auto f = at(schedule.free_begin[i]); f < at(schedule.free_begin[i + 1]); ++f) {
      const ir::StorageId s = schedule.freed[f];
      if (life[at(s)] != Life::alive) fail(s, "ends and is not alive");
      life[at(s)] = Life::ended;
    }
  }
  check_end(step, life);
}

}  // namespace ac_advisor::passes
