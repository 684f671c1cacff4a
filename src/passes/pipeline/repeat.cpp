#include "repeat.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "ir/attribute_fields.hpp"
#include "passes/pipeline/micro_batch.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::ValueId;

/// The next of two numbers' sequence.
template <typename T>
T next(T before, T now) {
  return static_cast<T>(now + (now - before));
}

/// Whether a number stays, or moves on by what was added to the list that it points into.
bool moves_by(std::int32_t before, std::int32_t now, std::int32_t grown) {
  return now == before || (before != no_id && now == before + grown);
}

/// Values that the step names by themselves, and that micro-batches change.
template <typename Step, typename F>
void each_id(Step& step, const F& f) {
  for (auto* id : {&step.loss, &step.hidden, &step.averaged}) f(*id);
  for (auto* id : of_micro_batch(step.model)) f(*id);
  for (auto& parameter : step.parameters)
    for (auto* id :
         {&parameter.gradient, &parameter.gathering, &parameter.gathered, &parameter.widened})
      f(*id);
  for (auto& tensor : step.optimized) f(tensor.gradient);
}

/// Lists of values that micro-batches replace or add to.
template <typename Step, typename F>
void each_list(Step& step, const F& f) {
  for (auto* list : {&step.inputs, &step.buffers, &step.resident, &step.surviving, &step.leaves,
                     &step.graph_held, &step.outputs, &step.losses, &step.in_line, &step.captured,
                     &step.outputs_before, &step.graph_before, &step.optimizer_states})
    f(*list);
}

std::int32_t count(std::size_t size) { return static_cast<std::int32_t>(size); }

bool same_fields(const ir::Attributes& a, const ir::Attributes& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& of_a) {
        using A = std::decay_t<decltype(of_a)>;
        if constexpr (std::is_same_v<A, std::monostate>) {
          return true;
        } else {
          std::array<double, 8> fields{};
          std::size_t n = 0, same = 0;
          ir::for_each_field(of_a, [&](auto field) { fields[n++] = static_cast<double>(field); });
          ir::for_each_field(*std::get_if<A>(&b), [&](auto field) {
            same += fields[same] == static_cast<double>(field) ? 1U : 0U;
          });
          return same == n;
        }
      },
      a);
}

/// The number that an op's attributes have of the program's compiled graphs, or bodies; null: none.
template <typename Attributes>
auto* graph_of(Attributes& attributes) {
  auto* unit = std::get_if<ir::CompiledUnit>(&attributes);
  return unit == nullptr ? nullptr : &unit->backward;
}
template <typename Attributes>
auto* body_of(Attributes& attributes) {
  auto* generated = std::get_if<ir::Generated>(&attributes);
  return generated == nullptr || generated->body < 0 ? nullptr : &generated->body;
}

}  // namespace

bool Repeat::applies(const StepConfig& config) {
  return config.layout.pp > 1 && !splits_backwards(config.layout.pp_schedule) &&
         (config.layout.shard == Sharding::none || config.layout.gathers());
}

void Repeat::written(const StepProgram& step) {
  std::rotate(last_.begin(), last_.begin() + 1, last_.end());
  State& now = last_.back();
  const ir::Program& p = step.program;
  now.extent = {count(p.ops.size()),
                count(p.values.size()),
                count(p.storages.size()),
                count(p.operands.size()),
                count(p.compiled.size()),
                count(p.bodies.size()),
                step.regions,
                count(step.micro_begin.size())};
  now.ids.clear();
  each_id(step, [&](ValueId id) { now.ids.push_back(id); });
  now.lists.clear();
  each_list(step, [&](const std::vector<ValueId>& list) { now.lists.push_back(list); });
  ++written_;
}

bool Repeat::is_steady(const StepProgram& step) {
  if (steady_ || written_ < last_.size()) return steady_;
  const State &before = last_[1], &now = last_[2];
  grown_ = now.extent - before.extent;
  if (grown_ != before.extent - last_[0].extent) return false;
  if (before.ids.size() != now.ids.size() || !step.weight_begin.empty()) return false;
  for (const Parameter& parameter : step.parameters)
    if (!parameter.waiting.empty()) return false;
  find_received(step);
  for (std::size_t i = 0; i < now.ids.size(); ++i)
    if (!moves_by(before.ids[i], now.ids[i], grown_.values)) return false;
  for (std::size_t i = 0; i < now.lists.size(); ++i)
    if (now.lists[i].size() - before.lists[i].size() !=
            before.lists[i].size() - last_[0].lists[i].size() ||
        !moves(before.lists[i], now.lists[i]))
      return false;
  steady_ = ends_move(step) && program_moves(step.program);
  return steady_;
}

/// Of this micro-batch and the one before; where the next ones' are not as far on: none.
void Repeat::find_received(const StepProgram& step) {
  received_.clear();
  const std::size_t micro = step.ends.size() / step.stages.size() - 1;
  for (const std::vector<StageEnds>& all : step.received)
    for (const auto end : {&StageEnds::input, &StageEnds::output_gradient}) {
      if (micro >= all.size() || all[micro].*end == no_id) continue;
      const ValueId before = all[micro - 1].*end, now = all[micro].*end;
      bool even = true;
      for (std::size_t m = micro; m < all.size(); ++m)
        even = even && all[m].*end - all[m - 1].*end == now - before;
      if (even) received_.emplace_back(before, now);
    }
}

bool Repeat::moves(ValueId before, ValueId now) const {
  return moves_by(before, now, grown_.values) ||
         std::find(received_.begin(), received_.end(), std::pair(before, now)) != received_.end();
}

/// A list that stays as long as it is, or to which each adds as much.
bool Repeat::moves(const std::vector<ValueId>& before, const std::vector<ValueId>& now) const {
  const std::size_t added = now.size() - before.size();
  if (now.size() < before.size() || added > before.size()) return false;
  if (added > 0 && !std::equal(before.begin(), before.end(), now.begin())) return false;
  const std::size_t first = added == 0 ? 0 : before.size();
  for (std::size_t i = first; i < now.size(); ++i)
    if (!moves(before[i - added], now[i])) return false;
  return true;
}

bool Repeat::moves_storage(const ir::Program& p, ir::StorageId before, ir::StorageId now) const {
  if (moves_by(before, now, grown_.storages)) return true;
  return std::any_of(received_.begin(), received_.end(), [&](const auto& both) {
    return p.storage_of(both.first) == before && p.storage_of(both.second) == now;
  });
}

bool Repeat::moves(const ir::Program& p, const ir::Value& a, const ir::Value& b) const {
  return a.shape == b.shape && a.dtype == b.dtype && a.requires_grad == b.requires_grad &&
         a.permuted == b.permuted && a.batch_at == b.batch_at && a.distributed == b.distributed &&
         a.narrow_dim == b.narrow_dim && moves_storage(p, a.storage, b.storage) &&
         moves(a.base, b.base) && moves_by(a.producer, b.producer, grown_.ops);
}

bool Repeat::moves(const Op& a, const Op& b) const {
  if (a.kind != b.kind || a.phase != b.phase || a.kept != b.kept || a.inputs != b.inputs ||
      a.outputs != b.outputs || !(a.module == b.module) ||
      b.first_operand != a.first_operand + grown_.operands)
    return false;
  if (!moves_by(a.group, b.group, grown_.ops) || !moves_by(a.forward, b.forward, grown_.ops) ||
      !moves_by(a.region, b.region, grown_.regions))
    return false;
  if (const auto* of_a = graph_of(a.attributes), *of_b = graph_of(b.attributes);
      of_a != nullptr && of_b != nullptr)
    return moves_by(*of_a, *of_b, grown_.compiled);
  if (const auto* of_a = body_of(a.attributes), *of_b = body_of(b.attributes);
      of_a != nullptr && of_b != nullptr)
    return moves_by(*of_a, *of_b, grown_.bodies);
  return same_fields(a.attributes, b.attributes);
}

bool Repeat::program_moves(const ir::Program& p) const {
  const Extent& first = last_[0].extent;
  const auto all = [](std::int32_t from, std::int32_t grown, const auto& list, const auto& same) {
    for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(from + grown); ++i)
      if (!same(list[i], list[i + static_cast<std::size_t>(grown)])) return false;
    return true;
  };
  return all(first.storages, grown_.storages, p.storages,
             [](const ir::Storage& a, const ir::Storage& b) {
               return a.bytes == b.bytes && a.role == b.role && a.module == b.module;
             }) &&
         all(first.operands, grown_.operands, p.operands,
             [&](ValueId a, ValueId b) { return moves(a, b); }) &&
         all(first.values, grown_.values, p.values,
             [&](const ir::Value& a, const ir::Value& b) { return moves(p, a, b); }) &&
         all(first.ops, grown_.ops, p.ops, [&](const Op& a, const Op& b) { return moves(a, b); });
}

bool Repeat::ends_move(const StepProgram& step) const {
  const std::size_t stages = step.stages.size();
  for (std::size_t i = step.ends.size() - stages; i < step.ends.size(); ++i) {
    const StageEnds &a = step.ends[i - stages], &b = step.ends[i];
    for (const auto end : {&StageEnds::input, &StageEnds::input_gradient, &StageEnds::output,
                           &StageEnds::output_gradient})
      if (!moves(a.*end, b.*end)) return false;
    if (step.micro_begin[i] - step.micro_begin[i - stages] != grown_.ops) return false;
  }
  return true;
}

void Repeat::write_program(ir::Program& p, std::int64_t left) const {
  const Extent &from = last_[1].extent, &grown = grown_;
  // `moved(two before, one before)` of each that the latest has added. Room is made once, for all.
  const auto append = [&](auto& list, std::int32_t first, std::int32_t count, const auto& moved) {
    const std::size_t all = list.size() + static_cast<std::size_t>(count * left);
    if (list.capacity() < all) list.reserve(all + all / 8);
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + count); ++i)
      list.push_back(moved(list[i - static_cast<std::size_t>(count)], list[i]));
  };
  append(p.storages, from.storages, grown.storages,
         [](const ir::Storage&, const ir::Storage& now) { return now; });
  append(p.operands, from.operands, grown.operands, next<ValueId>);
  append(p.values, from.values, grown.values, [](const ir::Value& before, const ir::Value& now) {
    ir::Value value = now;
    value.version = next(before.version, now.version);
    value.storage = next(before.storage, now.storage);
    value.base = next(before.base, now.base);
    value.producer = next(before.producer, now.producer);
    value.narrow_start = next(before.narrow_start, now.narrow_start);
    return value;
  });
  append(p.ops, from.ops, grown.ops, [](const Op& before, const Op& now) {
    Op op = now;
    op.first_operand = next(before.first_operand, now.first_operand);
    op.group = next(before.group, now.group);
    op.region = next(before.region, now.region);
    op.forward = next(before.forward, now.forward);
    if (auto* graph = graph_of(op.attributes)) *graph = next(*graph_of(before.attributes), *graph);
    if (auto* body = body_of(op.attributes)) *body = next(*body_of(before.attributes), *body);
    return op;
  });
  append(p.bodies, from.bodies, grown.bodies,
         [](const ir::GeneratedBody&, const ir::GeneratedBody& now) { return now; });
  append(p.compiled, from.compiled, grown.compiled,
         [&](const ir::CompiledGraph&, const ir::CompiledGraph& now) {
           ir::CompiledGraph graph = now;
           for (ir::CompiledGraph::Launch& launch : graph.launches)
             if (auto* body = body_of(launch.attributes)) *body += grown.bodies;
           return graph;
         });
}

void Repeat::write_next(StepProgram& step, std::int64_t left) {
  write_program(step.program, left);
  const State &before = last_[1], &now = last_[2];
  std::size_t i = 0;
  each_id(step, [&](ValueId& id) {
    id = next(before.ids[i], now.ids[i]);
    ++i;
  });
  i = 0;
  each_list(step, [&](std::vector<ValueId>& list) {
    const std::vector<ValueId>&a = before.lists[i], &b = now.lists[i++];
    const std::size_t added = b.size() - a.size(), first = added == 0 ? 0 : a.size();
    if (added == 0) list.clear();
    for (std::size_t n = first; n < b.size(); ++n) list.push_back(next(a[n - added], b[n]));
  });
  const std::size_t stages = step.stages.size();
  for (std::size_t chunk = 0; chunk < stages; ++chunk) {
    const std::size_t at = step.ends.size() - stages, earlier = at - stages;
    StageEnds ends;
    for (const auto end : {&StageEnds::input, &StageEnds::input_gradient, &StageEnds::output,
                           &StageEnds::output_gradient})
      ends.*end = next(step.ends[earlier].*end, step.ends[at].*end);
    step.ends.push_back(ends);
    step.micro_begin.push_back(step.micro_begin[at] + grown_.ops);
  }
  step.regions += grown_.regions;
  written(step);
}

}  // namespace ac_advisor::passes
