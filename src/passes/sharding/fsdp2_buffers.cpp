#include "fsdp2_buffers.hpp"

#include <algorithm>
#include <utility>

#include "ac_advisor/ir/torch_facts.hpp"
#include "passes/adapters/targets.hpp"
#include "tensor_parallel.hpp"

namespace ac_advisor::passes {

using ir::no_id;
using ir::OpId;
using ir::OpKind;
using ir::Role;
using ir::ValueId;

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::int64_t fsdp_shards(const StepConfig& config) {
  return config.layout.shard == Sharding::hsdp ? config.layout.hsdp_shards
                                               : config.layout.replica_ranks();
}

std::int64_t fsdp_shards(const StepConfig& config, const Parameter& parameter) {
  return fsdp_shards(config) / (parameter.expert ? config.layout.ep : 1);
}

std::int64_t fsdp_shard_numel(const ir::Shape& shape, std::int64_t shards) {
  return ceil_div(shape[0], shards) * (shape.numel() / shape[0]);
}

bool shards_second_dim(const StepConfig& config, std::int64_t experts) {
  return config.run.transformer_impl == TransformerImpl::torchtitan && config.layout.ep > 1 &&
         fsdp_shards(config) / config.layout.ep > experts;
}

std::int64_t fsdp_shard_numel(const StepConfig& config, const Parameter& parameter,
                              const ir::Shape& shape) {
  const std::int64_t shards = fsdp_shards(config, parameter);
  return parameter.expert && shards_second_dim(config, shape[0]) ? shape.numel() / shards
                                                                 : fsdp_shard_numel(shape, shards);
}

Fsdp2Buffers::Fsdp2Buffers(StepProgram& step, const StepConfig& config)
    : s_(step), p_(step.program), c_(config) {
  const std::int64_t blocks = s_.blocks;
  const std::int64_t per_unit =
      c_.layout.fsdp_unit == FsdpUnit::segment && c_.memory.ac == AcMode::grouped ? c_.memory.ac_arg
                                                                                  : 1;
  const std::int64_t count = ceil_div(blocks, per_unit);
  const bool of_verl = c_.layout.fsdp_unit == FsdpUnit::verl;
  if (c_.layout.fsdp_unit == FsdpUnit::torchtitan ||
      ((c_.layout.fsdp_unit == FsdpUnit::accelerate || of_verl) && !is_tied())) {
    embedding_ = static_cast<std::int32_t>(count);
    if (!c_.task.of_critic) head_ = embedding_ + 1;  // its score is the root's
  }
  units_ = static_cast<std::int32_t>(count);
  std::int64_t all = std::max<std::int64_t>({count, embedding_ + 1, head_ + 1});
  if (c_.layout.ep > 1) {
    experts_ = static_cast<std::int32_t>(all);
    all += blocks;
  }
  if ((c_.task.runs_reference() || c_.task.scorer == Scorer::reference) &&
      c_.task.reference == Reference::model)
    reference_ = static_cast<std::int32_t>(all++);
  groups_.resize(static_cast<std::size_t>(all) + 1);
  for (std::int64_t b = 0; b < blocks; ++b) {
    group_of_block_.push_back(static_cast<std::int32_t>(b / per_unit));
    if (experts_ < 0) continue;
    ParamGroup& experts = group(experts_ + static_cast<std::int32_t>(b));
    experts.experts = true;
    experts.within = group_of_block_.back();
  }
  for (const Parameter& parameter : s_.parameters)
    if (instance_.size() <= static_cast<std::size_t>(parameter.value))
      instance_.resize(static_cast<std::size_t>(parameter.value) + 1, no_id);
  for (std::size_t i = 0; i < s_.parameters.size(); ++i) add(i);
  if (!c_.layout.reshard_after_forward)
    for (ParamGroup& unit : groups_) unit.reshard_after_forward = false;
  if (!of_verl) root().reshard_after_forward = false;
  // Backward begins with it.
  if (head_ >= 0 && !of_verl) group(head_).reshard_after_forward = false;
  if (c_.layout.keep_last_block && count > 0)
    groups_[static_cast<std::size_t>(count) - 1].reshard_after_forward = false;
  // TorchTitan 0.2.2, apply_fsdp: a stage would gather anew for each micro-batch.
  if (c_.layout.pp > 1)
    for (ParamGroup& unit : groups_) unit.reshard_after_forward = false;
}

/// A classifier has no head that could be.
bool Fsdp2Buffers::is_tied() const {
  if (c_.task.of_critic) return s_.ties_embedding;  // verl asks the configuration
  return c_.task.kind != Task::reward &&
         std::none_of(s_.parameters.begin(), s_.parameters.end(),
                      [](const Parameter& p) { return p.module.leaf == ir::Module::lm_head; });
}

/// To its unit, if it is of the stage that is written.
void Fsdp2Buffers::add(std::size_t index) {
  const Parameter& parameter = s_.parameters[index];
  if (!s_.stages.empty() && !has(s_.stages[s_.chunk], parameter.module)) return;
  // Of a second model that scores between steps the shards alone are there.
  if (parameter.module.owner == ir::Owner::reference && reference_ < 0) return;
  const std::int32_t of = group_of(parameter.module);
  ParamGroup& unit = of < 0 ? root() : group(of);
  unit.parameters.push_back(index);
  unit.shards = fsdp_shards(c_, parameter);
  unit.second_dim = parameter.expert && shards_second_dim(c_, p_.value(parameter.value).shape[0]);
  const std::int64_t numel = p_.value(shard(index)).shape[0];
  unit.shard_bytes += numel * size_of(p_.value(parameter.value).dtype);
  if (parameter.trained) unit.trained_numel += numel;
  if (parameter.gathering != no_id) unit.all_gather_output = parameter.gathering;
  if (parameter.gathered == no_id) return;
  unit.unsharded = true;
  unit.gathered.push_back(parameter.gathered);
  instance_[static_cast<std::size_t>(parameter.value)] = parameter.gathered;
}

std::vector<ParamGroup*> Fsdp2Buffers::in_module_order() {
  std::vector<ParamGroup*> all{&root()};
  if (embedding_ >= 0) all.push_back(&group(embedding_));
  for (std::int32_t unit = 0; unit < units_; ++unit) {
    all.push_back(&group(unit));
    for (ParamGroup& of : groups_)
      if (of.experts && of.within == unit) all.push_back(&of);
  }
  if (head_ >= 0) all.push_back(&group(head_));
  std::erase_if(all, [](const ParamGroup* unit) { return unit->empty(); });
  return all;
}

std::vector<ParamGroup*> Fsdp2Buffers::after(const ParamGroup& group) { return beside(group, 1); }
std::vector<ParamGroup*> Fsdp2Buffers::before(const ParamGroup& group) { return beside(group, -1); }

std::vector<ParamGroup*> Fsdp2Buffers::beside(const ParamGroup& group, std::int32_t step) {
  if (experts_ < 0 || !of_titan()) return {};
  const std::int32_t first = step > 0 ? embedding_ : head_, last = step > 0 ? head_ : embedding_;
  const auto index = static_cast<std::int32_t>(&group - groups_.data());
  const bool begins = index == first;
  if (!begins && index >= units_) return {};
  const std::int32_t next = begins ? (step > 0 ? 0 : units_ - 1) : index + step;
  std::vector<ParamGroup*> found;
  if (next < 0 || next >= units_) {
    if (last >= 0) found.push_back(&this->group(last));  // a unit of its own
  } else {
    found.push_back(&this->group(next));
    if (!begins) found.push_back(&this->group(experts_ + next));
  }
  std::erase_if(found, [](const ParamGroup* unit) { return unit->empty(); });
  return found;
}

void Fsdp2Buffers::keep() {
  for (const ParamGroup& unit : groups_)
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      Parameter& parameter = s_.parameters[unit.parameters[i]];
      parameter.gathering = unit.all_gather_output;
      parameter.gathered = unit.unsharded ? unit.gathered[i] : no_id;
    }
}

std::int32_t Fsdp2Buffers::group_of(ir::ModulePath module) const {
  if (module.owner == ir::Owner::reference && reference_ >= 0) return reference_;
  if (module.block >= 0 && module.leaf == ir::Module::experts && experts_ >= 0)
    return experts_ + module.block;
  if (module.block >= 0) return group_of_block_[static_cast<std::size_t>(module.block)];
  if (module.leaf == ir::Module::embed) return embedding_;
  if (module.leaf == ir::Module::lm_head) return head_;
  // accelerate finds no norm in a PeftModel; verl leaves it to the root.
  const bool found = c_.layout.fsdp_unit != FsdpUnit::verl &&
                     (c_.layout.fsdp_unit != FsdpUnit::accelerate || !c_.adapters.used());
  return module.leaf == ir::Module::final_norm && found ? head_ : -1;
}

OpId Fsdp2Buffers::emit(OpKind kind, ir::ModulePath module, std::span<const ValueId> in,
                        std::span<const ValueId> out) {
  const OpId id = p_.emit(kind, phase_, module, in, out);
  p_.op(id).group = next_group_--;
  return id;
}

void Fsdp2Buffers::emit(OpKind kind, const ParamGroup& group, std::span<const ValueId> in,
                        std::span<const ValueId> out) {
  const OpId id = emit(kind, module_of(group), in, out);
  if (group.experts)
    p_.op(id).attributes = ir::ExpertShards{static_cast<std::int32_t>(group.shards)};
}

ValueId Fsdp2Buffers::instance(ValueId v) {
  const ValueId root = p_.root(v);
  if (!is_gathered(root)) return v;
  const ValueId whole = instance_[static_cast<std::size_t>(root)];
  if (v == root) return whole;
  const ir::Value like = p_.value(v);
  const ValueId view = p_.reshape(whole, like.shape, like.permuted);
  p_.value(view).dtype = like.dtype;
  return view;
}

void Fsdp2Buffers::hold(ValueId v) {
  const ValueId list[] = {v};
  emit(OpKind::hold, {-1, ir::Module::fsdp}, list, {});
}

void Fsdp2Buffers::record(std::int32_t ranges) {
  p_.op(emit(OpKind::record_function, {-1, ir::Module::fsdp}, {}, {})).attributes =
      ir::RecordFunction{ranges};
}

ValueId Fsdp2Buffers::buffer(std::int64_t numel, DType dtype, Role role, ir::ModulePath module) {
  return p_.make({numel}, dtype, role, module);
}

/// torchao's fsdp_pre_all_gather, on the copy-in's stream: this rank's shard in fp8, by a scale
/// that is known already.
ValueId Fsdp2Buffers::scaled_shard(std::size_t parameter, ir::ModulePath module) {
  const std::int64_t numel = p_.value(shard(parameter)).shape[0];
  const auto next = [&](OpKind kind, ValueId from, DType dtype) {
    const ValueId in[] = {from}, out[] = {buffer(numel, dtype, Role::communication, module)};
    emit(kind, module, in, out);
    return out[0];
  };
  ValueId wide = shard(parameter);
  if (p_.value(wide).dtype != DType::f32) wide = next(OpKind::cast, wide, DType::f32);
  const ValueId scaled = next(OpKind::mul_scalar, wide, DType::f32);
  const ValueId data = next(OpKind::cast, next(OpKind::clamp, scaled, DType::f32), DType::f8);
  hold(scaled);
  return data;
}

/// FSDPParam.all_gather_inputs with CPUOffloadPolicy: the shard comes to the device, and is cast
/// there, one parameter after another.
ValueId Fsdp2Buffers::fetched_shard(std::size_t parameter, ir::ModulePath module) {
  const ir::Value stored = p_.value(shard(parameter));
  const DType computed = p_.value(s_.parameters[parameter].value).dtype;
  const ValueId there[] = {buffer(stored.shape[0], stored.dtype, Role::communication, module)};
  emit(OpKind::copy_from_host, module, {}, there);
  if (stored.dtype == computed) return there[0];
  const ValueId cast[] = {buffer(stored.shape[0], computed, Role::communication, module)};
  emit(OpKind::cast, module, there, cast);
  return cast[0];
}

void Fsdp2Buffers::unshard(ParamGroup& group) {
  if (group.unsharded || group.all_gather_output != no_id) return;
  if (group.shards == 1) {
    group.copying = true;
    return;
  }
  const ir::ModulePath module = module_of(group);
  record(1);  // FSDP::all_gather
  if (!group.in_parts.empty()) return gather_parts(group);
  std::vector<ValueId> inputs, scaled;
  std::int64_t bytes = group.shard_bytes;
  for (std::size_t i : group.parameters) {
    if (p_.value(s_.parameters[i].value).dtype != DType::f8) {
      inputs.push_back(offloads() ? fetched_shard(i, module) : shard(i));
      continue;
    }
    scaled.push_back(scaled_shard(i, module));
    bytes -= p_.bytes(scaled.back());
  }
  const DType stored =
      module.owner == ir::Owner::reference ? c_.reference_dtype() : c_.precision.param_dtype;
  if (!inputs.empty() && !offloads() &&
      stored != c_.precision.compute_dtype) {  // the foreach copy to the compute dtype
    const ValueId flat[] = {buffer(bytes / size_of(c_.precision.compute_dtype),
                                   c_.precision.compute_dtype, Role::communication, module)};
    emit(OpKind::foreach, module, inputs, flat);
    inputs.assign(flat, flat + 1);
  }
  inputs.insert(inputs.end(), scaled.begin(), scaled.end());
  // Of one dtype its elements, of several (bf16 and fp32 adapters, fp8) bytes: the sizes are the
  // same.
  const DType dtype = scaled.empty() ? c_.precision.compute_dtype : DType::u8;
  group.all_gather_output =
      buffer(ir::checked_mul(group.shard_bytes / size_of(dtype), group.shards), dtype,
             Role::communication, module);
  const ValueId out[] = {group.all_gather_output};
  emit(OpKind::all_gather_copy_in, group, inputs, out);
  emit(OpKind::all_gather, group, out, {});
}

/// FSDPParam.all_gather_inputs of SHARDED_POST_FORWARD: between the ranks that have a part each.
void Fsdp2Buffers::gather_parts(ParamGroup& group) {
  const ir::ModulePath module = module_of(group);
  const DType dtype = c_.precision.compute_dtype;
  group.all_gather_output =
      buffer(ir::checked_mul(group.shard_bytes / size_of(dtype), group.shards), dtype,
             Role::communication, module);
  const ValueId out[] = {group.all_gather_output};
  const ir::ExpertShards ranks{static_cast<std::int32_t>(c_.layout.reshard_to)};
  std::vector<ValueId> parts = group.in_parts;
  if (c_.precision.param_dtype != dtype) {  // mixed precision's foreach copy, which casts nothing
    std::int64_t numel = 0;
    for (ValueId part : parts) numel += p_.value(part).shape.numel();
    const ValueId flat[] = {buffer(numel, dtype, Role::communication, module)};
    emit(OpKind::foreach, module, parts, flat);
    parts.assign(flat, flat + 1);
  }
  p_.op(emit(OpKind::all_gather_copy_in, module, parts, out)).attributes = ranks;
  p_.op(emit(OpKind::all_gather, module, out, {})).attributes = ranks;
}

void Fsdp2Buffers::unshard_in_line(ParamGroup& group) {
  const std::size_t first = p_.ops.size();
  unshard(group);
  for (std::size_t i = first; i < p_.ops.size(); ++i)
    for (ValueId v : p_.outputs(p_.ops[i])) s_.in_line.push_back(v);
}

void Fsdp2Buffers::wait_for_unshard(ParamGroup& group, bool forward) {
  if (group.all_gather_output == no_id && !group.copying) return;
  // The one before was kept to overlap its copy-out with this all-gather; in 2.11 the local
  // `prev_all_gather_state` keeps it to the function's end.
  if (forward && !ir::facts_of(c_.runtime.torch).keeps_last_all_gather_over_copy_out)
    release_all_gather();
  group.copying ? cast_and_copy(group) : copy_out(group);
  if (forward) {
    release_all_gather();
    held_all_gather_ = group.all_gather_output;
  }
  group.all_gather_output = no_id;
  group.unsharded = true;
}

void Fsdp2Buffers::gather_what_is_read(const ir::Op& op) {
  if (head_ < 0 || !reads_head_of_shards(c_)) return;
  const std::vector<ValueId> inputs(p_.inputs(op).begin(), p_.inputs(op).end());
  for (std::size_t i : head().parameters)
    for (ValueId v : inputs) {
      if (p_.root(v) != s_.parameters[i].value || is_gathered(v)) continue;
      const ValueId whole[] = {unsharded_like(i)};
      emit(OpKind::empty, head(), {}, whole);
      emit(OpKind::all_gather, head(), whole, {});
    }
}

void Fsdp2Buffers::read_head_anew(bool apart, bool returns) {
  if (head_ < 0 || !reads_head_of_shards(c_)) return;
  const ValueId weight = s_.parameters[head().parameters.front()].value;
  ValueId& whole = instance_[static_cast<std::size_t>(weight)];
  const ValueId before = std::exchange(whole, returns ? head_read_ : no_id);
  if (apart) head_read_ = before;
}

void Fsdp2Buffers::copy_out(ParamGroup& group) {
  record(1);  // FSDP::all_gather_copy_out
  const ValueId in[] = {group.all_gather_output};
  if (group.second_dim) return copy_out_by_rank(group, in[0]);
  for (std::size_t i : group.parameters) group.gathered.push_back(unsharded_like(i));
  emit(OpKind::all_gather_copy_out, group, in, group.gathered);
  if (!group.in_parts.empty()) emit(OpKind::hold, module_of(group), group.in_parts, {});
  group.in_parts.clear();
}

/// foreach_all_gather_copy_out of shards along another dimension than the first: the ranks' parts
/// one after the other, then side by side.
void Fsdp2Buffers::copy_out_by_rank(ParamGroup& group, ValueId gathered) {
  std::vector<ValueId> parts;
  for (std::size_t i : group.parameters) {
    const ValueId whole[] = {unsharded_like(i)};
    emit(OpKind::empty, module_of(group), {}, whole);
    group.gathered.push_back(whole[0]);
    const ir::Value like = p_.value(whole[0]);
    const ValueId part[] = {
        buffer(like.shape.numel(), like.dtype, Role::communication, module_of(group))};
    emit(OpKind::empty, module_of(group), {}, part);
    parts.push_back(part[0]);
  }
  const ValueId all[] = {gathered};
  std::vector<ValueId> written;
  for (ValueId part : parts)
    written.push_back(p_.on_storage_of(part, p_.value(part).shape, p_.value(part).dtype, true));
  emit(OpKind::all_gather_copy_out, group, all, written);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ValueId in[] = {group.gathered[i], written[i]};
    emit(OpKind::copy, module_of(group), in, {});
  }
  emit(OpKind::hold, module_of(group), written, {});
}

/// foreach_reduce of such: each gradient's parts one after the other; the one before it goes with
/// the loop's names.
std::vector<ValueId> Fsdp2Buffers::by_rank(ParamGroup& group,
                                           const std::vector<ValueId>& gradients) {
  std::vector<ValueId> ordered;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i > 0) hold(gradients[i - 1]);
    const ir::Value like = p_.value(gradients[i]);
    const ValueId in[] = {gradients[i]},
                  out[] = {p_.make(like.shape, like.dtype, Role::gradient, module_of(group))};
    emit(OpKind::cat, module_of(group), in, out);
    ordered.push_back(out[0]);
  }
  return ordered;
}

ValueId Fsdp2Buffers::unsharded_like(std::size_t i) {
  const ValueId parameter = s_.parameters[i].value;
  const ir::Shape shape = p_.value(parameter).shape;
  const std::int64_t padded =
      fsdp_shard_numel(c_, s_.parameters[i], shape) * fsdp_shards(c_, s_.parameters[i]);
  const ValueId whole =
      buffer(padded, p_.value(parameter).dtype, Role::gathered, s_.parameters[i].module);
  p_.value(whole).shape = shape;
  p_.value(whole).requires_grad = s_.parameters[i].trained;
  instance_[static_cast<std::size_t>(parameter)] = whole;
  return whole;
}

/// FSDPParamGroup.wait_for_unshard of one rank: each parameter cast, on the stream that computes,
/// then copied; the local `all_gather_input` holds what was cast until the next is.
void Fsdp2Buffers::cast_and_copy(ParamGroup& group) {
  const DType computed = c_.precision.compute_dtype;
  ValueId held = no_id;
  for (std::size_t i : group.parameters) {
    ValueId in[] = {shard(i)};
    if (c_.precision.param_dtype != computed) {
      const ValueId cast[] = {
          buffer(p_.value(in[0]).shape[0], computed, Role::temporary, s_.parameters[i].module)};
      emit(OpKind::cast, module_of(group), in, cast);
      if (held != no_id) hold(held);
      held = in[0] = cast[0];
    }
    const ValueId out[] = {unsharded_like(i)};
    emit(OpKind::all_gather_copy_out, group, in, out);
    group.gathered.push_back(out[0]);
  }
  if (held != no_id) hold(held);
  group.copying = false;
}

void Fsdp2Buffers::reshard(ParamGroup& group) {
  if (!group.unsharded) return;
  emit(OpKind::hold, module_of(group), group.gathered, {});
  for (std::size_t i : group.parameters)
    instance_[static_cast<std::size_t>(s_.parameters[i].value)] = no_id;
  group.gathered.clear();
  group.unsharded = false;
}

/// FSDPParam.to_sharded_post_forward: a clone of this rank's part of each, on the stream that
/// computes.
void Fsdp2Buffers::reshard_after_forward(ParamGroup& group) {
  if (const std::int64_t ranks = c_.layout.reshard_to; ranks > 0 && group.unsharded) {
    const ir::ModulePath module = module_of(group);
    for (ValueId whole : group.gathered) {
      const DType dtype = p_.value(whole).dtype;
      const std::int64_t numel = p_.storage(p_.storage_of(whole)).bytes / size_of(dtype) / ranks;
      const ValueId in[] = {p_.on_storage_of(whole, {numel}, dtype, false)};
      const ValueId out[] = {buffer(numel, dtype, Role::parameter, module)};
      emit(OpKind::clone, module, in, out);
      group.in_parts.push_back(out[0]);
    }
  }
  reshard(group);
}

void Fsdp2Buffers::redistribute(ParamGroup& group) {
  for (std::size_t i : group.parameters) {
    Parameter& parameter = s_.parameters[i];
    if (parameter.gradient == no_id) continue;
    const std::size_t begin = p_.ops.size();
    parameter.gradient = redistributed(s_, parameter, parameter.gradient, c_.layout.tp_rank, phase_,
                                       Role::activation_grad);
    for (std::size_t op = begin; op < p_.ops.size(); ++op) p_.ops[op].group = next_group_;
    if (p_.ops.size() > begin) --next_group_;
  }
}

void Fsdp2Buffers::add_to_widened(const ParamGroup& group, Parameter& parameter) {
  const ValueId in[] = {parameter.widened, std::exchange(parameter.gradient, no_id)};
  emit(OpKind::accumulate_inplace, module_of(group), in, {});
}

/// FSDPParam.to_accumulated_grad_if_needed, accumulate_unsharded_grad_if_needed.
void Fsdp2Buffers::widen(ParamGroup& group) {
  if (c_.precision.reduce_dtype == c_.precision.compute_dtype) return;
  for (std::size_t i : group.parameters) {
    Parameter& parameter = s_.parameters[i];
    if (parameter.gradient == no_id) continue;
    if (parameter.widened != no_id) {
      add_to_widened(group, parameter);
      continue;
    }
    const ValueId gradient[] = {std::exchange(parameter.gradient, no_id)};
    const ValueId wide[] = {p_.make(p_.value(gradient[0]).shape, c_.precision.reduce_dtype,
                                    Role::gradient, parameter.module)};
    emit(OpKind::cast, module_of(group), gradient, wide);
    parameter.widened = wide[0];
  }
}

void Fsdp2Buffers::widen_waiting(ParamGroup& group, std::int64_t micro) {
  std::vector<ValueId> later;
  for (std::size_t i : group.parameters) {
    Parameter& parameter = s_.parameters[i];
    later.push_back(std::exchange(parameter.gradient, no_id));
    for (const WaitingGradient& waits : parameter.waiting)
      if (waits.micro == micro) parameter.gradient = waits.gradient;
    std::erase_if(parameter.waiting, [&](const auto& waits) { return waits.micro == micro; });
  }
  widen(group);
  for (std::size_t i = 0; i < later.size(); ++i)
    s_.parameters[group.parameters[i]].gradient = later[i];
}

void Fsdp2Buffers::wait_for(ParamGroup& group, std::int64_t micro) {
  for (std::size_t i : group.parameters)
    if (ValueId& gradient = s_.parameters[i].gradient; gradient != no_id)
      s_.parameters[i].waiting.push_back({micro, std::exchange(gradient, no_id)});
}

void Fsdp2Buffers::take_widened(ParamGroup& group) {
  for (std::size_t i : group.parameters) {
    Parameter& parameter = s_.parameters[i];
    if (parameter.widened == no_id) continue;
    if (parameter.gradient != no_id) add_to_widened(group, parameter);
    parameter.gradient = std::exchange(parameter.widened, no_id);
  }
}

void Fsdp2Buffers::post_backward(ParamGroup& group) {
  record(2);  // FSDP::post_backward_accumulate, post_backward_reshard
  take_widened(group);
  if (c_.layout.tp > 1) redistribute(group);
  reshard(group);
  record(1);  // FSDP::post_backward_reduce
  reduce(group);
}

/// _get_gradient_divide_factors: sums in fp16 may overflow, so it divides by about the root of the
/// ranks before, and by what is left after; other sums are averaged by NCCL itself.
ValueId Fsdp2Buffers::divided(ValueId v, ir::ModulePath module, bool before) {
  const ir::Value like = p_.value(v);
  if (like.dtype != DType::f16) return v;
  const std::int64_t ranks = c_.layout.replica_ranks();
  std::int64_t first = 1;
  while (ranks % first == 0 && ranks > first * first) first *= 2;
  const double by =
      before ? static_cast<double>(first) : static_cast<double>(ranks) / static_cast<double>(first);
  if (by == 1) return v;
  const ValueId in[] = {v}, out[] = {p_.on_storage_of(v, like.shape, like.dtype, true)};
  p_.op(emit(OpKind::mul_scalar, module, in, out)).attributes = ir::Number{1 / by};
  return out[0];
}

/// What the ranks' gradients `input` are summed to here. Of experts set_gradient_divide_factor says
/// that they are of all ranks' tokens (transformers 5.23, distributed/fsdp.py): a sum that is
/// divided afterwards; of one rank, which has all of them, divided into a copy. TorchTitan's factor
/// is 1 (disable_fsdp_gradient_division).
ValueId Fsdp2Buffers::reduced(const ParamGroup& group, ValueId input, DType type, Role role) {
  const ir::ModulePath module = module_of(group);
  const ValueId in[] = {input}, out[] = {buffer(group.trained_numel, type, role, module)};
  const ir::Number share{1 / static_cast<double>(c_.layout.replica_ranks())};
  if (group.shards == 1) {
    const ValueId divided[] = {buffer(group.trained_numel, type, Role::gradient, module)};
    p_.op(emit(OpKind::mul_scalar, module, in, divided)).attributes = share;
    const ValueId copied[] = {divided[0]};
    emit(OpKind::clone, module, copied, out);
  } else {
    emit(OpKind::reduce_scatter, group, in, out);
  }
  if (c_.layout.shard == Sharding::hsdp) emit(OpKind::all_reduce, group, out, {});
  if (!group.experts || group.shards == 1 || of_titan()) return out[0];
  const ValueId scaled[] = {p_.on_storage_of(out[0], p_.value(out[0]).shape, type, true)};
  p_.op(emit(OpKind::mul_scalar, module, out, scaled)).attributes = share;
  return scaled[0];
}

void Fsdp2Buffers::reduce(ParamGroup& group) {
  const ir::ModulePath module = module_of(group);
  std::vector<ValueId> gradients;
  for (std::size_t i : group.parameters)
    if (s_.parameters[i].gradient != no_id) gradients.push_back(s_.parameters[i].gradient);
  if (gradients.empty()) return;
  if (held_reduce_scatter_ != no_id) hold(held_reduce_scatter_);
  const bool adapters = c_.adapters.used();
  const DType stored = trained_dtype(c_);
  // Without a policy of their own, adapters' gradients are reduced as they are.
  const DType type = adapters && c_.precision.param_dtype == c_.precision.compute_dtype
                         ? stored
                         : c_.precision.reduce_dtype;
  ValueId input[] = {buffer(ir::checked_mul(group.trained_numel, group.shards), type,
                            Role::communication, module)};
  emit(OpKind::reduce_scatter_copy_in, group,
       group.second_dim ? by_rank(group, gradients) : gradients, input);
  input[0] = divided(input[0], module, true);
  ValueId output[] = {
      reduced(group, input[0], type, type == stored ? Role::gradient : Role::communication)};
  output[0] = divided(output[0], module, false);
  ValueId sharded = output[0];
  // AllReduceState's, until backward ends
  if (c_.layout.shard == Sharding::hsdp) held_all_reduce_.push_back(output[0]);
  if (type != stored) {
    const ValueId cast[] = {buffer(group.trained_numel, stored, Role::gradient, module)};
    emit(OpKind::cast, module, output, cast);
    sharded = cast[0];
  }
  offloads() ? store_on_host(group, sharded) : store(group, sharded);
  if (group.shards > 1) hold(gradients.back());  // foreach_reduce's loop variable
  held_reduce_scatter_ = input[0];
}

/// The shards' gradients are views of the reduce-scatter's output; a later micro-batch adds to
/// them, one parameter at a time.
void Fsdp2Buffers::store(ParamGroup& group, ValueId sharded) {
  std::int64_t start = 0;
  for (std::size_t i : group.parameters) {
    if (!s_.parameters[i].trained) continue;
    const std::int64_t numel = p_.value(shard(i)).shape[0];
    const ValueId part = p_.narrow(sharded, 0, start, numel);
    start += numel;
    ValueId& gradient = s_.optimized[s_.parameters[i].optimized].gradient;
    if (gradient == no_id) {
      gradient = part;
      s_.surviving.push_back(sharded);
      continue;
    }
    const ValueId in[] = {gradient, part};
    emit(OpKind::accumulate_inplace, module_of(group), in, {});
  }
  hold(sharded);
  for (std::size_t i : group.parameters) s_.parameters[i].gradient = no_id;
}

/// foreach_reduce with CPUOffloadPolicy: each shard's gradient goes to pinned memory of its own; a
/// later micro-batch's is added to it there.
void Fsdp2Buffers::store_on_host(ParamGroup& group, ValueId sharded) {
  std::int64_t start = 0;
  for (std::size_t i : group.parameters) {
    Parameter& parameter = s_.parameters[i];
    if (!parameter.trained) continue;
    const ir::Value stored = p_.value(shard(i));
    const ValueId part[] = {p_.narrow(sharded, 0, start, stored.shape[0])};
    start += stored.shape[0];
    emit(OpKind::copy_to_host, module_of(group), part, {});
    ValueId& gradient = s_.optimized[parameter.optimized].gradient;
    if (gradient == no_id)
      gradient = p_.make(stored.shape, stored.dtype, Role::gradient, parameter.module);
  }
  hold(sharded);
  for (std::size_t i : group.parameters) s_.parameters[i].gradient = no_id;
}

void Fsdp2Buffers::release_all_gather() {
  if (held_all_gather_ != no_id) hold(held_all_gather_);
  held_all_gather_ = no_id;
}

void Fsdp2Buffers::release_reductions() {
  if (held_reduce_scatter_ != no_id) hold(held_reduce_scatter_);
  held_reduce_scatter_ = no_id;
  for (ValueId v : held_all_reduce_) hold(v);
  held_all_reduce_.clear();
}

}  // namespace ac_advisor::passes
