// DeepSpeed's ZeRO 3 in a micro-batch, deepspeed/runtime/zero/stage3.py and partition_parameters.py
// (v0.19.8): what a module needs is gathered before it, with more ahead (zero3_fetches.cpp).
// Gradients are copied into a bucket, which is joined, reduced and cut when the next one does not
// fit.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ac_advisor/passes/pass.hpp"
#include "ir/shared_rows.hpp"
#include "passes/map_inputs.hpp"
#include "zero3_calls.hpp"
#include "zero3_fetches.hpp"
#include "zero3_parts.hpp"
#include "zero_on_host.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::Role;
using ir::ValueId;

constexpr ir::ModulePath sharded{-1, ir::Module::fsdp}, embedding{-1, ir::Module::embed},
    in_optimizer{-1, ir::Module::optimizer};

bool applies(const StepConfig& config) { return config.layout.zero3(); }

/// One micro-batch.
class Zero3 {
 public:
  Zero3(StepProgram& step, const StepConfig& config)
      : s_(step), p_(step.program), c_(config), instance_(step.program.values.size(), no_id) {
    find_persistent();
  }

  void rewrite() {
    first_ = s_.micro_begin.back();
    const std::vector<Op> old(p_.ops.begin() + first_, p_.ops.end());
    find_ready();
    p_.ops.resize(static_cast<std::size_t>(first_));
    if (first()) emit_persistent();
    std::vector<ModuleHook> hooks = module_hooks(old, c_.memory.reentrant, reads_head());
    // A frozen embedding whose output requires a gradient: its hook runs last of all.
    if (input_requires_grad(c_)) hooks.push_back({old.size(), embedding, true, false});
    find_parameters();
    Engine policy = engine_of(false, hooks, old), reference = engine_of(true, hooks, old);
    auto hook = hooks.begin();
    const auto run_hooks = [&](std::size_t until) {
      for (; hook != hooks.end() && hook->before <= until; ++hook) {
        if (breaks_trace() && !hook->forward && !hook->begins && !is_released(hook->module))
          continue;
        const ModuleCall call{hook->module, parameters_of(hook->module)};
        const bool recomputing = hook->forward && phase_ == Phase::recompute;
        Engine& engine = of_own_engine(hook->module.owner) ? reference : policy;
        if (calls_model(*hook)) engine.fetches.begin(engine.traces[engine.forwards++]);
        perform(engine, hook->begins ? engine.fetches.fetch(call, hook->forward, recomputing)
                                     : engine.fetches.release(call, hook->forward));
      }
    };
    const std::vector<Readers> loss = readers_of_teacher(old);
    auto reading = loss.begin();
    std::size_t next = 0;
    for (std::size_t i = 0; i < old.size(); ++i) {
      phase_ = old[i].phase == Phase::recompute  ? Phase::recompute
               : old[i].phase >= Phase::backward ? Phase::backward
               : i > 0                           ? old[i - 1].phase
                                                 : Phase::forward;
      run_hooks(i);
      if (reading != loss.end() && i == reading->first) gather_one(*head_in_loss_);
      push(old[i]);
      if (reading != loss.end() && i == reading->last) {
        free(*head_in_loss_);
        ++reading;
      }
      if (i + 1 < old.size() && old[i + 1].group == old[i].group) continue;
      for (; next < ready_.size() && ready_[next].first <= first_ + static_cast<OpId>(i); ++next)
        on_gradient(ready_[next].second);
    }
    phase_ = Phase::backward;
    run_hooks(old.size());
    flush();
    perform(policy, policy.fetches.end_backward());
    if (!norms_.empty()) emit(OpKind::hold, norms_, {}, sharded);  // the step reads them
    for (Parameter& parameter : s_.parameters) parameter.gradient = no_id;
  }

 private:
  using Trace = std::vector<ModuleCall>;
  /// The policy's, or a reference model's, which has hooks, a trace and limits of its own.
  struct Engine {
    Zero3Fetches fetches;
    std::map<std::int32_t, ValueId> buffers;  ///< by a gather's number
    std::vector<Trace> traces;                ///< that each of its forwards finds
    std::size_t forwards = 0;
  };

  [[nodiscard]] bool first() const { return s_.micro_begin.size() == 1; }
  [[nodiscard]] bool last() const {
    return static_cast<std::int64_t>(s_.micro_begin.size()) == micro_batches_written(c_);
  }
  [[nodiscard]] std::int64_t ranks() const { return c_.layout.world; }
  [[nodiscard]] std::int64_t bucket_elements() const {
    return p_.value(s_.zero3.bucket).shape.numel();
  }
  [[nodiscard]] std::int64_t numel(std::size_t parameter) const { return elements_[parameter]; }
  [[nodiscard]] std::int64_t part(std::size_t parameter) const {
    return zero3_part(numel(parameter), ranks());
  }

  /// What the last optimizer step has left whole.
  void find_persistent() {
    for (const Parameter& parameter : s_.parameters)
      elements_.push_back(p_.value(parameter.value).shape.numel());
    std::vector<ValueId>& whole = s_.zero3.persistent;
    if (first())
      for (std::size_t i = 0; i < elements_.size(); ++i)
        whole.push_back(s_.zero3.is_persistent[i] ? make_persistent(p_, s_.parameters[i], ranks())
                                                  : no_id);
    for (std::size_t i = 0; i < whole.size(); ++i)
      instance_[static_cast<std::size_t>(s_.parameters[i].value)] = whole[i];
  }

  void emit_persistent() {
    std::vector<ValueId> whole;
    for (ValueId v : s_.zero3.persistent)
      if (v != no_id) whole.push_back(v);
    if (!whole.empty()) emit(OpKind::empty, {}, whole, sharded);
  }

  /// Parameters by the op that completes their gradient.
  void find_ready() {
    for (std::size_t i = 0; i < s_.parameters.size(); ++i) {
      const ValueId g = s_.parameters[i].gradient;
      if (g != no_id) ready_.emplace_back(p_.value(p_.root(g)).producer, i);
    }
    std::sort(ready_.begin(), ready_.end());
  }

  void find_parameters() {
    for (std::size_t i = 0; i < s_.parameters.size(); ++i)
      of_module_[key(s_.parameters[i].module)].push_back(i);
    for (const ir::Owner owner : {ir::Owner::policy, ir::Owner::reference}) {
      const ir::ModulePath head{-1, ir::Module::lm_head, owner},
          table{-1, ir::Module::embed, owner};
      if (of_module_.count(key(head)) == 0) of_module_[key(head)] = parameters_of(table);  // tied
      if (!reads_head()) continue;
      if (c_.task.distills() && owner == ir::Owner::reference)
        head_in_loss_ = parameters_of(head).front();
      else
        of_module_[key({-1, ir::Module::root, owner})] = parameters_of(head);
    }
  }

  /// TRL v1.16, trainer/utils.py, maybe_gather_lm_head_ctx: a teacher's forward has ended when the
  /// student's loss reads its head, which is gathered for as long as that loss runs, forward and
  /// once more backward, until the last product is added. First and last op of each.
  struct Readers {
    std::size_t first = 0, last = 0;
  };
  [[nodiscard]] std::vector<Readers> readers_of_teacher(const std::vector<Op>& old) const {
    std::vector<Readers> readers;
    if (!head_in_loss_) return readers;
    const ValueId head = s_.parameters[*head_in_loss_].value;
    std::optional<bool> backward;
    for (std::size_t i = 0; i < old.size(); ++i) {
      const auto in = p_.inputs(old[i]);
      if (old[i].module.owner != ir::Owner::policy ||
          std::none_of(in.begin(), in.end(), [&](ValueId v) { return p_.root(v) == head; }))
        continue;
      const bool now = old[i].phase >= Phase::backward;
      if (backward != now) readers.push_back({i, i});
      backward = now;
      readers.back().last = i;
    }
    for (Readers& r : readers)
      for (std::size_t i = r.last; i < old.size() && old[i].group == old[r.first].group; ++i)
        if (old[i].kind == OpKind::addmm) r.last = i;
    return readers;
  }
  [[nodiscard]] Engine engine_of(bool own, const std::vector<ModuleHook>& hooks,
                                 const std::vector<Op>& old) const {
    std::vector<bool> frozen;
    for (const Parameter& parameter : s_.parameters) frozen.push_back(!parameter.trained);
    return {{elements_, s_.zero3.is_persistent, {}, {}, std::move(frozen)},
            {},
            traces_of(own, hooks, old)};
  }
  [[nodiscard]] static bool calls_model(const ModuleHook& hook) {
    return hook.begins && hook.forward && hook.module.block == outer_model.block &&
           hook.module.leaf == outer_model.leaf;
  }
  /// reset_step, at the begin of each forward and at the end of one without gradients: a forward
  /// and its backward find what the step before recorded of them. Where one without gradients goes
  /// before, what that one recorded is all of the trace, which ends before backward; itself it
  /// finds none, as a trace that was followed beyond its end is no more.
  [[nodiscard]] std::vector<Trace> traces_of(bool own, const std::vector<ModuleHook>& hooks,
                                             const std::vector<Op>& old) const {
    std::vector<Trace> calls;
    std::size_t before_backward = 0;
    for (const ModuleHook& hook : hooks) {
      if (!hook.begins || of_own_engine(hook.module.owner) != own) continue;
      if (calls_model(hook)) calls.emplace_back();
      calls.back().push_back({hook.module, parameters_of(hook.module)});
      if (hook.before < old.size() && old[hook.before].phase < Phase::backward)
        before_backward = calls.back().size();
    }
    if (own) return calls;
    if (breaks_trace() || scored_without_adapters() || c_.task.scores())
      return std::vector<Trace>(calls.size());
    if (calls.size() > 1) return {{}, calls.front()};
    if (scored_before()) calls.front().resize(before_backward);
    return calls;
  }
  /// A reference that is the policy without its adapters runs on the policy's engine, whose trace
  /// begins anew with each forward: of the first no more than that is recorded, and the second does
  /// not follow it.
  [[nodiscard]] bool breaks_trace() const {
    return c_.task.runs_reference() && c_.task.reference == Reference::adapter;
  }
  /// The same of completions, whose scoring between steps is no part of the program.
  [[nodiscard]] bool scored_without_adapters() const {
    return c_.task.online() && c_.task.reference == Reference::adapter;
  }
  /// By the policy, before the first micro-batch of a step; another one would record all of itself.
  [[nodiscard]] bool scored_before() const {
    return c_.task.kind == Task::rloo && c_.run.grad_accum == 1;
  }
  /// The second forward, without gradients, sets ds_grads_remaining of each module to 0 before its
  /// backward counts it down: no hook runs after it (parameter_offload.py,
  /// PostBackwardFunctionModule). A recomputation counts anew; the first block's input requires a
  /// gradient in both.
  [[nodiscard]] bool is_released(ir::ModulePath module) const {
    if (c_.memory.ac == AcMode::none || module.block < 0) return false;
    return module.leaf != ir::Module::block || module.block == 0;
  }
  [[nodiscard]] bool of_own_engine(ir::Owner owner) const {
    return owner == ir::Owner::reference && !breaks_trace();
  }
  /// TRL's loss reads the head's weight in the outer model's forward without calling the head: it
  /// is an external parameter of that model (partition_parameters.py, ZeROOrderedDict), which
  /// gathers it with its own hooks.
  [[nodiscard]] bool reads_head() const { return c_.memory.loss == LossKind::tiled; }

  [[nodiscard]] std::tuple<ir::Owner, int, ir::Module> key(ir::ModulePath module) const {
    const bool own = of_own_engine(module.owner);
    return {own ? module.owner : ir::Owner::policy, module.block, module.leaf};
  }
  [[nodiscard]] std::vector<std::size_t> parameters_of(ir::ModulePath module) const {
    const auto found = of_module_.find(key(module));
    return found == of_module_.end() ? std::vector<std::size_t>{} : found->second;
  }

  OpId emit(OpKind kind, const std::vector<ValueId>& in, const std::vector<ValueId>& out,
            ir::ModulePath module) {
    const OpId id = p_.emit(kind, phase_, module, in, out);
    p_.op(id).group = next_group_--;
    return id;
  }

  void push(const Op& source) {
    Op op = source;
    map_inputs(p_, op, [&](ValueId v) { return instance(v); });
    const auto id = static_cast<OpId>(p_.ops.size());
    moved_.push_back(id);
    if (op.forward >= first_) op.forward = moved_[static_cast<std::size_t>(op.forward - first_)];
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    p_.ops.push_back(op);
  }

  [[nodiscard]] bool gathered(ValueId v) const {
    const auto i = static_cast<std::size_t>(p_.root(v));
    return i < instance_.size() && instance_[i] != no_id;
  }
  ValueId instance(ValueId v) {
    const ValueId root = p_.root(v);
    if (!gathered(root)) return v;
    const ValueId whole = instance_[static_cast<std::size_t>(root)];
    if (v == root) return whole;
    const ir::Value like = p_.value(v);
    return p_.reshape(whole, like.shape, like.permuted);
  }

  // --- parameters -------------------------------------------------------------------------------

  void perform(Engine& engine, const std::vector<FetchAction>& actions) {
    for (const FetchAction& action : actions) {
      switch (action.kind) {
        case FetchAction::Kind::gather:
          gather(engine, action);
          break;
        case FetchAction::Kind::split:
          split(action, engine.buffers[action.buffer]);
          break;
        case FetchAction::Kind::drop:
          emit(OpKind::hold, {engine.buffers[action.buffer]}, {}, sharded);
          break;
        case FetchAction::Kind::free:
          free(action.parameters.front());
          break;
      }
    }
  }

  void gather_one(std::size_t parameter) {
    const ir::ModulePath module = module_of(parameter);
    const ValueId whole =
        make_whole(p_, s_.parameters[parameter], part(parameter) * ranks(), module);
    set_instance(parameter, whole);
    emit(OpKind::empty, {}, {whole}, module);
    const ValueId own = part_on_device(parameter);
    emit(OpKind::all_gather, {whole}, {}, module);
    if (zero_parameters_on_host(c_)) emit(OpKind::hold, {own}, {}, module);
  }

  /// all_gather_coalesced: one parameter into what it will be; several, copied together first, into
  /// a buffer of each rank's parts.
  void gather(Engine& engine, const FetchAction& action) {
    if (action.parameters.size() == 1) return gather_one(action.parameters.front());
    std::int64_t all = 0;
    std::vector<ValueId> parts;
    for (std::size_t i : action.parameters) {
      all += part(i);
      parts.push_back(part_on_device(i));
    }
    const ir::ModulePath module = module_of(action.parameters.front());
    const ValueId buffer =
        p_.make({all * ranks()}, c_.precision.compute_dtype, Role::communication, module);
    emit(OpKind::cat, parts, {buffer}, module);
    emit(OpKind::all_gather, {buffer}, {}, module);
    engine.buffers[action.buffer] = buffer;
  }

  /// Of offload_param a copy, for the gather alone.
  ValueId part_on_device(std::size_t parameter) {
    if (!zero_parameters_on_host(c_)) return s_.parameters[parameter].stored;
    const ValueId copied = p_.make({part(parameter)}, c_.precision.compute_dtype,
                                   Role::communication, module_of(parameter));
    emit(OpKind::copy_from_host, {}, {copied}, module_of(parameter));
    return copied;
  }

  /// AllGatherCoalescedHandle.wait: each rank's part of one parameter after the other.
  void split(const FetchAction& action, ValueId buffer) {
    std::int64_t start = 0;
    for (std::size_t i : action.parameters) {
      const ValueId whole = make_whole(p_, s_.parameters[i], numel(i), module_of(i));
      const ValueId from = p_.narrow(buffer, 0, start, numel(i));
      emit(OpKind::all_gather_copy_out, {from}, {whole}, module_of(i));
      set_instance(i, whole);
      start += part(i) * ranks();
    }
  }

  void free(std::size_t parameter) {
    const auto i = static_cast<std::size_t>(s_.parameters[parameter].value);
    emit(OpKind::hold, {std::exchange(instance_[i], no_id)}, {}, module_of(parameter));
  }

  void set_instance(std::size_t parameter, ValueId whole) {
    instance_[static_cast<std::size_t>(s_.parameters[parameter].value)] = whole;
  }
  [[nodiscard]] ir::ModulePath module_of(std::size_t parameter) const {
    const ir::ModulePath of = s_.parameters[parameter].module;
    return {of.block, ir::Module::fsdp, of.owner};
  }

  // --- gradients --------------------------------------------------------------------------------

  struct Filled {
    std::size_t parameter = 0;
    ValueId gradient = no_id;  ///< in the bucket, or its own where it is longer than that
  };

  /// reduce_independent_p_g_buckets_and_remove_grads
  void on_gradient(std::size_t parameter) {
    const ValueId gradient = s_.parameters[parameter].gradient;
    const std::int64_t size = numel(parameter);
    if (filled_ + size > bucket_elements()) flush();
    ValueId place = gradient;
    if (filled_ + size <= bucket_elements()) {
      place = p_.narrow(s_.zero3.bucket, 0, filled_, size);
      copy(place, gradient, s_.parameters[parameter].module);
    }
    in_bucket_.push_back({parameter, place});
    filled_ += size;
  }

  void copy(ValueId to, ValueId from, ir::ModulePath module) {
    p_.op(emit(OpKind::bucket_copy, {to, from}, {}, module)).attributes = ir::BucketCopy{-1};
  }

  /// __reduce_and_partition_ipg_grads: what is joined stands by ranks, each parameter padded to
  /// equal parts. One alone that they divide is reduced where it is.
  void flush() {
    if (in_bucket_.empty()) return;
    std::sort(in_bucket_.begin(), in_bucket_.end(),
              [](const Filled& a, const Filled& b) { return a.parameter < b.parameter; });
    const Filled& front = in_bucket_.front();
    const bool alone = filled_ > bucket_elements();
    const ValueId whole = alone ? in_dtype(front.gradient, zero3_reduced_in(c_)) : front.gradient;
    ValueId joined = whole;
    if (in_bucket_.size() > 1 || numel(front.parameter) % ranks() != 0)
      joined = join(alone ? p_.reshape(whole, {filled_}) : s_.zero3.bucket);
    const std::int64_t all = p_.value(joined).shape.numel();
    if (p_.value(joined).shape.rank() != 1) joined = p_.reshape(joined, {all});
    const ValueId divided = p_.on_storage_of(joined, {all}, p_.value(joined).dtype, true);
    p_.op(emit(OpKind::mul_scalar, {joined}, {divided}, sharded)).attributes =
        ir::Number{1.0 / static_cast<double>(ranks())};
    emit(OpKind::reduce_scatter, {divided}, {}, sharded);
    std::int64_t start = 0;
    std::vector<ValueId> own;
    for (const Filled& one : in_bucket_) {
      const ValueId of_rank = p_.narrow(divided, 0, start, part(one.parameter));
      own.push_back(in_dtype(of_rank, c_.precision.compute_dtype));
      start += part(one.parameter);
    }
    if (whole != front.gradient) emit(OpKind::hold, {whole}, {}, sharded);
    for (std::size_t i = 0; i < in_bucket_.size(); ++i)
      zero_on_host(c_) ? keep_on_host(own[i]) : keep(in_bucket_[i].parameter, own[i]);
    if (zero_on_host(c_)) emit(OpKind::hold, {std::exchange(summed_, no_id)}, {}, sharded);
    if (zero3_reduced_in(c_) != c_.precision.compute_dtype)
      emit(OpKind::hold, own, {}, sharded);  // grad_partitions
    if (alone) emit(OpKind::hold, {front.gradient}, {}, sharded);
    in_bucket_.clear();
    filled_ = 0;
  }

  /// A gradient, or this rank's part of one, cast where that is another dtype.
  ValueId in_dtype(ValueId gradient, DType dtype) {
    if (p_.value(gradient).dtype == dtype) return gradient;
    const ValueId y = p_.make(p_.value(gradient).shape, dtype, Role::communication, sharded);
    s_.zero3.reduced.push_back(y);
    emit(OpKind::cast, {gradient}, {y}, sharded);
    return y;
  }

  /// reduce_scatter_coalesced: torch.cat of each rank's part of each parameter, of which a kernel
  /// takes 128 (aten/src/ATen/native/cuda/Shape.cu).
  ValueId join(ValueId source) {
    constexpr std::int64_t pieces_a_kernel = 128;
    const auto pieces = static_cast<std::int64_t>(in_bucket_.size()) * ranks();
    const std::int64_t kernels = (pieces + pieces_a_kernel - 1) / pieces_a_kernel;
    std::int64_t all = 0;
    for (const Filled& one : in_bucket_) all += part(one.parameter) * ranks();
    const ValueId joined = p_.make({all}, zero3_reduced_in(c_), Role::communication, sharded);
    s_.zero3.reduced.push_back(joined);
    emit(OpKind::empty, {}, {joined}, sharded);
    for (std::int64_t k = 0; k < kernels; ++k) {
      const std::int64_t begin = all * k / kernels, end = all * (k + 1) / kernels,
                         from = std::min(begin, filled_), to = std::min(end, filled_);
      copy(p_.narrow(joined, 0, begin, end - begin), p_.narrow(source, 0, from, to - from),
           sharded);
    }
    return joined;
  }

  /// partition_grads: the first micro-batch's are copied, others are added.
  void keep(std::size_t parameter, ValueId own) {
    const ir::Value stored = p_.value(s_.parameters[parameter].stored);
    const ValueId kept = p_.narrow(s_.zero3.gradients, 0, stored.narrow_start, part(parameter));
    if (first())
      copy(kept, own, sharded);
    else
      emit(OpKind::accumulate_inplace, {kept, own}, {}, sharded);
  }

  ValueId reduced(const ir::Shape& shape, DType dtype) {
    const ValueId y = p_.make(shape, dtype, Role::communication, sharded);
    s_.zero3.reduced.push_back(y);
    return y;
  }
  void kernels(ValueId from, ValueId to, std::int32_t launches) {
    p_.op(emit(OpKind::foreach, {from}, {to}, in_optimizer)).attributes =
        ir::Foreach{0, launches, 1, false};
  }

  /// partition_grads with offload_optimizer: to the host, and back to the device, where others are
  /// added; the last micro-batch's in fp32, too (_offload_grad_partition_at_boundary).
  void keep_on_host(ValueId own) {
    constexpr std::int64_t norm_elements = 250'000'000;  // _constant_buffered_norm2
    const ir::Value like = p_.value(own);
    const std::int64_t elements = like.shape.numel();
    if (first()) {
      emit(OpKind::copy_to_host, {own}, {}, in_optimizer);
      if (summed_ != no_id) emit(OpKind::hold, {summed_}, {}, sharded);
    }
    const ValueId there = reduced(like.shape, like.dtype);
    emit(OpKind::empty, {}, {there}, in_optimizer);
    emit(OpKind::copy_from_host, {there}, {}, in_optimizer);
    if (!first()) {
      if (summed_ != no_id) emit(OpKind::hold, {summed_}, {}, sharded);
      emit(OpKind::accumulate_inplace, {there, own}, {}, sharded);
      emit(OpKind::copy_to_host, {there}, {}, in_optimizer);
    }
    summed_ = there;
    if (!last()) return;
    // A double for each element: two fp32, as no tensor of a step is in fp64.
    const ValueId wide = reduced({std::min(elements, norm_elements), 2}, DType::f32);
    norms_.push_back(reduced({2}, DType::f32));
    kernels(there, wide, 1);
    kernels(wide, norms_.back(), ir::whole_reduction_launches(elements) + 2);  // and two powers
    const ValueId cast = reduced(like.shape, DType::f32);
    emit(OpKind::cast, {there}, {cast}, sharded);
    emit(OpKind::copy_to_host, {cast}, {}, in_optimizer);
  }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  OpId first_ = 0;
  Phase phase_ = Phase::forward;
  std::int32_t next_group_ = -1'000'000'000;
  std::vector<OpId> moved_;  ///< where the ops from first_ on stand now
  std::vector<std::pair<OpId, std::size_t>> ready_;
  std::vector<std::int64_t> elements_;  ///< by parameter
  std::vector<ValueId> instance_;       ///< by a parameter's value: where it is whole
  std::map<std::tuple<ir::Owner, int, ir::Module>, std::vector<std::size_t>> of_module_;
  std::optional<std::size_t> head_in_loss_;  ///< a teacher's, among the parameters
  std::vector<Filled> in_bucket_;
  std::int64_t filled_ = 0;
  ValueId summed_ = no_id;      ///< of offload_optimizer: the part that came back last
  std::vector<ValueId> norms_;  ///< and its norms
};

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Zero3(step, config).rewrite();
}

}  // namespace

extern const Pass zero3_pass;
const Pass zero3_pass{"zero3",
                      Stage::micro_batch,
                      "zero3: gathers before use and ahead, gradients through a bucket",
                      applies,
                      run,
                      {},
                      Of::pytorch};

}  // namespace ac_advisor::passes
