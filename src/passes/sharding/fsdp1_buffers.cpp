#include "fsdp1_buffers.hpp"

#include <algorithm>
#include <utility>

namespace ac_advisor::passes {

using ir::no_id;
using ir::OpId;
using ir::OpKind;
using ir::Role;
using ir::ValueId;

namespace {

/// _flat_param.py, v2.11: what the parameters' addresses are multiples of (_get_aligned_numel).
constexpr std::int64_t address_alignment = 16;

/// What is missing to a multiple of `unit`.
std::int64_t missing(std::int64_t numel, std::int64_t unit) { return (unit - numel % unit) % unit; }

void pad(FlatParameter& flat, std::int64_t elements) {
  if (elements == 0) return;
  flat.padding.push_back(elements);
  flat.numel += elements;
}

ir::ModulePath module_of(std::size_t unit, std::size_t root, ir::Module leaf) {
  const int block = unit == root ? -1 : static_cast<int>(unit);
  return {static_cast<std::int16_t>(block), leaf};
}

/// With use_orig_params, which verl 0.9.1 leaves False.
bool aligns(const StepConfig& config) { return !config.verl(); }

/// _get_gradient_predivide_factor (algorithms/_comm_hooks/default_hooks.py): about the root of the
/// ranks; what is left divides the sum.
double divided_before(std::int64_t ranks) {
  std::int64_t factor = 1;
  while (ranks % factor == 0 && ranks / factor > factor) factor *= 2;
  return static_cast<double>(factor);
}

}  // namespace

void make_flat_parameters(StepProgram& step, const StepConfig& config) {
  ir::Program& p = step.program;
  const auto root = static_cast<std::size_t>(step.blocks);
  const std::int64_t ranks = config.layout.data_ranks();
  step.flat.assign(root + 1, {});
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const std::int32_t block = step.parameters[i].module.block;
    FlatParameter& flat = step.flat[block < 0 ? root : static_cast<std::size_t>(block)];
    if (aligns(config))
      pad(flat, missing(flat.numel, address_alignment / size_of(config.precision.compute_dtype)));
    flat.parameters.push_back(i);
    flat.begin.push_back(flat.numel);
    flat.numel += p.value(step.parameters[i].value).shape.numel();
  }
  const auto make_shard = [&](std::size_t unit) {
    FlatParameter& flat = step.flat[unit];
    pad(flat, missing(flat.numel, ranks));
    flat.shard = p.make({flat.numel / ranks}, config.precision.param_dtype, Role::parameter,
                        module_of(unit, root, ir::Module::fsdp));
    // CPUOffload: the shard is the host's, and no op makes it on the device.
    if (config.memory.offload != Offload::parameters) step.resident.push_back(flat.shard);
  };
  make_shard(root);
  for (std::size_t unit = 0; unit < root; ++unit) make_shard(unit);
  // The first rank's parts. The others' lie elsewhere in parameters, and are as many bytes.
  std::vector<std::size_t> next(step.flat.size(), 0);
  for (Parameter& parameter : step.parameters) {
    const std::size_t unit =
        parameter.module.block < 0 ? root : static_cast<std::size_t>(parameter.module.block);
    const FlatParameter& flat = step.flat[unit];
    parameter.stored = flat.shard;
    const std::int64_t begin = flat.begin[next[unit]++],
                       numel = std::min(p.value(parameter.value).shape.numel(),
                                        flat.numel / ranks - begin);
    if (numel <= 0) continue;
    parameter.optimized = step.optimized.size();
    step.optimized.push_back({p.narrow(flat.shard, 0, begin, numel), no_id});
  }
}

Fsdp1Buffers::Fsdp1Buffers(StepProgram& step, const StepConfig& config)
    : s_(step), p_(step.program), c_(config), units_(step.flat.size()) {
  for (const Parameter& parameter : s_.parameters)
    if (instance_.size() <= static_cast<std::size_t>(parameter.value))
      instance_.resize(static_cast<std::size_t>(parameter.value) + 1, no_id);
}

OpId Fsdp1Buffers::emit(OpKind kind, ir::ModulePath module, std::span<const ValueId> in,
                        std::span<const ValueId> out) {
  const OpId id = p_.emit(kind, phase_, module, in, out);
  p_.op(id).group = next_group_--;
  return id;
}

ir::ModulePath Fsdp1Buffers::fsdp_of(std::size_t unit) const {
  return module_of(unit, root(), ir::Module::fsdp);
}

bool Fsdp1Buffers::is_gathered(ValueId v) const {
  const auto i = static_cast<std::size_t>(p_.root(v));
  return i < instance_.size() && instance_[i] != no_id;
}

ValueId Fsdp1Buffers::instance(ValueId v) {
  if (!is_gathered(v)) return v;
  const ValueId whole = instance_[static_cast<std::size_t>(p_.root(v))];
  if (v == p_.root(v)) return whole;
  const ir::Value like = p_.value(v);
  const ValueId view = p_.reshape(whole, like.shape, like.permuted);
  p_.value(view).dtype = like.dtype;
  return view;
}

void Fsdp1Buffers::record(std::int32_t ranges) {
  p_.op(emit(OpKind::record_function, {-1, ir::Module::fsdp}, {}, {})).attributes =
      ir::RecordFunction{ranges};
}

ValueId Fsdp1Buffers::cast(ValueId from, DType dtype, Role role, ir::ModulePath module) {
  const ValueId to = p_.make({p_.value(from).shape.numel()}, dtype, role, module);
  emit(OpKind::cast, module, {from}, {to});
  return to;
}

/// FlatParamHandle.pre_unshard: what is gathered of this rank's shard. From the host it comes in
/// the dtype that it is stored in. Either it is cast into what was made for it before
/// (_use_low_precision_shard), or original parameters become views of it, which keep it until they
/// are views of the host's again (flat_param_to, _use_sharded_views).
ValueId Fsdp1Buffers::pre_unshard(std::size_t unit) {
  const ir::ModulePath module = fsdp_of(unit);
  const DType stored = c_.precision.param_dtype, dtype = c_.precision.compute_dtype;
  const ValueId shard = flat(unit).shard;
  if (!offloads()) return stored == dtype ? shard : cast(shard, dtype, Role::communication, module);
  ValueId low = no_id;
  if (stored != dtype) {
    low = p_.make({p_.value(shard).shape.numel()}, dtype, Role::communication, module);
    emit(OpKind::empty, module, {}, {low});
  }
  const ValueId there =
      p_.make({p_.value(shard).shape.numel()}, stored, Role::communication, module);
  emit(OpKind::copy_from_host, module, {}, {there});
  if (low == no_id) return units_[unit].viewed = there;
  emit(OpKind::bucket_copy, module, {low, there}, {});
  return low;
}

/// FlatParamHandle.pre_unshard, unshard and post_unshard, which lets go of the cast shard. Of what
/// is whole already a shard on the host comes for nothing.
void Fsdp1Buffers::unshard(std::size_t unit) {
  if (units_[unit].gathered != no_id && !offloads()) return;
  const ValueId shard = pre_unshard(unit);
  const ir::ModulePath module = fsdp_of(unit);
  if (units_[unit].gathered != no_id) return;
  const DType dtype = c_.precision.compute_dtype;
  const ValueId whole = p_.make({flat(unit).numel}, dtype, Role::gathered, module);
  emit(OpKind::empty, module, {}, {whole});
  emit(OpKind::all_gather, module, {whole, shard}, {});
  units_[unit].gathered = whole;
  for (std::size_t i = 0; i < flat(unit).parameters.size(); ++i) {
    const Parameter& parameter = s_.parameters[flat(unit).parameters[i]];
    const ir::Shape shape = p_.value(parameter.value).shape;
    const ValueId part = p_.narrow(whole, 0, flat(unit).begin[i], shape.numel());
    const ValueId view = p_.reshape(part, shape);
    p_.value(view).requires_grad = parameter.trained;
    instance_[static_cast<std::size_t>(parameter.value)] = view;
  }
}

void Fsdp1Buffers::use_sharded_views(std::size_t unit) {
  const ValueId viewed = std::exchange(units_[unit].viewed, no_id);
  if (viewed != no_id) emit(OpKind::hold, fsdp_of(unit), {viewed}, {});
}

void Fsdp1Buffers::reshard(std::size_t unit) {
  if (units_[unit].gathered == no_id) return;
  use_sharded_views(unit);
  emit(OpKind::hold, fsdp_of(unit), {units_[unit].gathered}, {});
  units_[unit].gathered = no_id;
  for (std::size_t i : flat(unit).parameters)
    instance_[static_cast<std::size_t>(s_.parameters[i].value)] = no_id;
}

/// SplitWithSizesBackward (FunctionsManual.cpp, split_with_sizes_backward): zeros for the padding,
/// and all joined; then AccumulateGrad, which adds to what no_sync has left.
void Fsdp1Buffers::join_gradients(std::size_t unit) {
  const ir::ModulePath module = fsdp_of(unit);
  const DType dtype = c_.precision.compute_dtype;
  std::vector<ValueId> pieces;
  for (std::size_t i : flat(unit).parameters)
    if (s_.parameters[i].gradient != no_id)
      pieces.push_back(std::exchange(s_.parameters[i].gradient, no_id));
  const std::int32_t node = next_group_;
  const auto zeros = [&](std::int64_t elements) {
    pieces.push_back(p_.make({elements}, dtype, Role::temporary, module));
    p_.op(emit(OpKind::fill, module, {}, {pieces.back()})).group = node;
  };
  for (std::int64_t elements : flat(unit).padding) zeros(elements);
  const ValueId joined = p_.make({flat(unit).numel}, dtype, Role::gradient, module);
  const ValueId out[] = {joined};
  p_.op(emit(OpKind::cat, module, pieces, out)).group = node;
  units_[unit].gradient = joined;
  const ValueId before = flat(unit).whole_gradient;
  if (before != no_id) {
    emit(OpKind::accumulate_inplace, module, {before, joined}, {});
    units_[unit].gradient = before;
  }
  flat(unit).whole_gradient = units_[unit].gradient;
}

void Fsdp1Buffers::divide(ValueId v, double by, ir::ModulePath module) {
  if (by <= 1) return;  // _div_if_needed
  const ir::Value like = p_.value(v);
  const ValueId out = p_.on_storage_of(v, like.shape, like.dtype, true);
  p_.op(emit(OpKind::mul_scalar, module, {v}, {out})).attributes = ir::Number{1 / by};
}

/// _get_reduce_scatter_tensors: what was not padded to a multiple of the ranks beforehand is
/// copied.
ValueId Fsdp1Buffers::padded(std::size_t unit, ValueId gradient) {
  if (aligns(c_) || flat(unit).padding.empty()) return gradient;
  const ir::ModulePath module = fsdp_of(unit);
  const ir::Value like = p_.value(gradient);
  const ValueId copy = p_.make(like.shape, like.dtype, Role::gradient, module);
  emit(OpKind::fill, module, {}, {copy});
  emit(OpKind::bucket_copy, module, {copy, gradient}, {});
  return copy;
}

/// _post_backward_hook from the reduction on, and _reduce_grad, whose locals live until the reduced
/// part has been cast.
void Fsdp1Buffers::reduce(std::size_t unit) {
  const ir::ModulePath module = fsdp_of(unit);
  const DType reduced = c_.precision.reduce_dtype, stored = c_.precision.param_dtype;
  const std::int64_t ranks = c_.layout.data_ranks();
  const double before = divided_before(ranks);
  const ValueId whole = std::exchange(units_[unit].gradient, no_id);
  flat(unit).whole_gradient = no_id;
  ValueId sent = whole;
  const auto first = static_cast<OpId>(p_.ops.size());
  if (p_.value(whole).dtype != reduced) sent = cast(whole, reduced, Role::gradient, module);
  const ValueId unpadded = std::exchange(sent, padded(unit, sent));
  divide(sent, before, module);
  ValueId sharded = p_.make({flat(unit).numel / ranks}, reduced, Role::gradient, module);
  emit(OpKind::reduce_scatter, module, {sent}, {sharded});
  divide(sharded, static_cast<double>(ranks) / before, module);
  if (unpadded != sent) emit(OpKind::hold, module, {unpadded}, {});
  if (reduced != stored) sharded = cast(sharded, stored, Role::gradient, module);
  for (auto id = first; id < static_cast<OpId>(p_.ops.size()); ++id)
    p_.op(id).group = p_.op(first).group;
  if (offloads())
    leave(unit, sharded);
  else
    keep(unit, sharded);
}

/// _offload_grad: to memory that the host has for it. What it was copied from is _saved_grad_shard,
/// which goes when backward ends (prepare_gradient_for_optim).
void Fsdp1Buffers::leave(std::size_t unit, ValueId sharded) {
  emit(OpKind::copy_to_host, fsdp_of(unit), {sharded}, {});
  saved_.push_back(sharded);
  const ir::Value& like = p_.value(sharded);
  give_gradient(unit, p_.make(like.shape, like.dtype, Role::gradient, fsdp_of(unit)));
}

void Fsdp1Buffers::finish_backward() {
  if (!saved_.empty()) emit(OpKind::hold, fsdp_of(root()), saved_, {});
  saved_.clear();
}

/// _accumulate_sharded_grad; the parameters' gradients are views of it (_use_sharded_grad_views).
void Fsdp1Buffers::keep(std::size_t unit, ValueId sharded) {
  FlatParameter& into = flat(unit);
  if (into.gradient != no_id) {
    emit(OpKind::accumulate_inplace, fsdp_of(unit), {into.gradient, sharded}, {});
    return;
  }
  into.gradient = sharded;
  s_.surviving.push_back(sharded);
  give_gradient(unit, sharded);
}

void Fsdp1Buffers::give_gradient(std::size_t unit, ValueId sharded) {
  for (OptimizedTensor& t : s_.optimized) {
    if (p_.root(t.parameter) != flat(unit).shard) continue;
    const std::int64_t begin = p_.value(t.parameter).narrow_start;
    t.gradient = p_.narrow(sharded, 0, begin, p_.value(t.parameter).shape.numel());
  }
}

}  // namespace ac_advisor::passes
