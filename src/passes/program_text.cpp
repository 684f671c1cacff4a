#include "ac_advisor/passes/program_text.hpp"

#include <fmt/format.h>

#include <iterator>
#include <unordered_map>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::ValueId;

constexpr const char* phase_names[] = {"forward", "loss", "backward", "recompute", "optimizer"};
constexpr const char* phase_prefixes[] = {"", "", "d.", "re.", ""};
constexpr const char* role_names[] = {
    "parameter", "gathered",   "buffer",     "input",           "state",     "waiting",
    "gradient",  "activation", "recomputed", "activation_grad", "temporary", "communication"};
static_assert(std::size(phase_names) == ir::phase_count);

class Printer {
 public:
  explicit Printer(const StepProgram& step)
      : s_(step),
        p_(step.program),
        names_(p_.values.size()),
        first_on_(p_.storages.size(), no_id) {}

  std::string print() {
    const ProgramSize size = size_of(s_);
    line("step: {} ops, {} storages, {} bytes in all", size.ops, size.storages, size.bytes);
    line("resident:");
    for (ValueId v : s_.resident) line("  {}: {}", name(v), type(p_.root(v)));
    for (std::size_t i = 0; i < p_.ops.size(); ++i) {
      if (micro_ < s_.micro_begin.size() && static_cast<std::size_t>(s_.micro_begin[micro_]) == i) {
        line("micro-batch {}:", micro_++);
        heading_.clear();
      }
      print_op(p_.ops[i]);
    }
    line("surviving:");
    for (ValueId v : s_.surviving) line("  {}", operand(v));
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void print_op(const Op& op) {
    const std::string heading =
        fmt::format("{} {}:", phase_names[static_cast<std::size_t>(op.phase)], module(op.module));
    if (heading != heading_) line("{}", heading_ = heading);
    std::string inputs;
    for (ValueId v : p_.inputs(op)) inputs += (inputs.empty() ? "" : ", ") + operand(v);
    const char* kind = ir::name_of(p_, op);
    const std::string stem =
        fmt::format("{}{}{}.{}", micro_ > 1 ? fmt::format("m{}.", micro_ - 1) : "",
                    phase_prefixes[static_cast<std::size_t>(op.phase)], module(op.module), kind);
    std::string outputs;
    if (op.outputs > 0) {
      const std::string base = numbered(stem);
      for (std::size_t i = 0; i < op.outputs; ++i) {
        const ValueId v = p_.output(op, i);
        const ValueId over = first_on_[static_cast<std::size_t>(p_.storage_of(v))];
        if (names_[index(p_.root(v))].empty())
          set_name(p_.root(v), i == 0 ? base : fmt::format("{}:{}", base, i));
        outputs += fmt::format("{}{}: {}", outputs.empty() ? "" : ", ", operand(v), type(v));
        if (over != no_id && p_.root(v) != over) outputs += " over " + name(over);
      }
      outputs += " = ";
    }
    std::string rest = ir::to_string(op.attributes);
    if (!rest.empty()) rest = " {" + rest + "}";
    if (op.region != no_id && op.phase < ir::Phase::backward)
      rest += fmt::format(" region {}{}", op.region, op.kept ? " kept" : "");
    line("  {}{}({}){}", outputs, kind, inputs, rest);
  }

  static std::size_t index(ValueId v) { return static_cast<std::size_t>(v); }
  static std::string module(ir::ModulePath path) {
    const std::string text = to_string(path);
    return text.empty() ? "model" : text;
  }

  std::string numbered(const std::string& stem) {
    const int n = ++used_[stem];
    return n == 1 ? stem : fmt::format("{}.{}", stem, n);
  }

  void set_name(ValueId root, const std::string& name) {
    names_[index(root)] = "%" + name;
    ValueId& first = first_on_[static_cast<std::size_t>(p_.value(root).storage)];
    if (first == no_id) first = root;
  }

  /// Of the value that `v` only views. What no op has made yet is named after what it is for.
  const std::string& name(ValueId v) {
    const ValueId root = p_.root(v);
    if (names_[index(root)].empty()) {
      const ir::Storage& storage = p_.storage(p_.value(root).storage);
      set_name(root, numbered(fmt::format("{}.{}", module(storage.module),
                                          role_names[static_cast<std::size_t>(storage.role)])));
    }
    return names_[index(root)];
  }

  std::string operand(ValueId v) {
    const ir::Value& value = p_.value(v);
    if (value.base == no_id) return name(v);
    if (value.narrow_dim >= 0)
      return fmt::format("narrow({}, {}, {}, {})", operand(value.base), value.narrow_dim,
                         value.narrow_start,
                         value.shape[static_cast<std::size_t>(value.narrow_dim)]);
    return fmt::format("view({}, {})", operand(value.base), ir::to_string(value.shape));
  }

  /// "bf16[2, 32, 64]", the layout where it is not that of the shape, the bytes where there is
  /// padding.
  [[nodiscard]] std::string type(ValueId v) const {
    const ir::Value& value = p_.value(v);
    std::string text = to_option(value.dtype) + ir::to_string(value.shape);
    if (value.permuted) text += " permuted";
    const std::int64_t bytes = p_.storage(p_.storage_of(v)).bytes;
    if (first_on_[static_cast<std::size_t>(p_.storage_of(v))] == v && bytes != p_.bytes(v))
      text += fmt::format(" in {} bytes", bytes);
    return text;
  }

  const StepProgram& s_;
  const ir::Program& p_;
  std::string text_, heading_;
  std::size_t micro_ = 0;
  std::vector<std::string> names_;  ///< by value: of those that view no other
  std::vector<ValueId> first_on_;   ///< by storage: the value that was there first
  std::unordered_map<std::string, int> used_;
};

}  // namespace

std::string program_text(const StepProgram& step) { return Printer(step).print(); }

}  // namespace ac_advisor::passes
