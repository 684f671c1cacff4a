// DeepSpeed's ZeRO 1 and 2 with bf16 and its defaults, deepspeed/runtime/zero/stage_1_and_2.py
// (v0.19.8): the whole parameters in bf16; an fp32 master copy and fp32 moments of this rank's
// partition. Gradients are copied into a bucket of `reduce_bucket_size` elements, which is
// flattened and all-reduced when the next one does not fit; those of parameters that reach into the
// partition are kept, whole. Stage 2 does so in backward; stage 1 keeps all gradients and does it
// at the end of the last micro-batch. With overlap_comm there are two buckets by turns, reductions
// have a stream of their own, and stage 1 reduces in the last micro-batch's backward, too
// (setup_buckets, process_gradients).
#include <algorithm>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "gradient_hooks.hpp"
#include "ir/shared_rows.hpp"
#include "passes/optimizer/ops.hpp"
#include "zero_on_host.hpp"
#include "zero_partition.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t bucket_elements = 500'000'000;  // zero/config.py, reduce_bucket_size: 5e8
constexpr ir::ModulePath root{-1, ir::Module::root};

bool trained(const StepConfig& config) { return config.runtime.kind == Runtime::ac_trainer; }

/// Whole parameters, and the planned rank's partition of all of them in fp32.
void make_partition(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  ir::Program& p = step.program;
  for (Parameter& parameter : step.parameters) {
    parameter.stored = parameter.value;
    step.resident.push_back(parameter.value);
    // They are flattened into one buffer, beside which the model's own stand until then.
    if (!trained(config) && parameter.trained)
      step.set_up.push_back(p.make(p.value(parameter.value).shape, p.value(parameter.value).dtype,
                                   Role::parameter, root));
  }
  constexpr ir::ModulePath module{-1, ir::Module::optimizer};
  const ZeroPartition partition(step, config.layout.world);
  const ValueId master = p.make({partition.elements()}, DType::f32, Role::optimizer_state, module);
  step.optimized = {{master, no_id}};
  if (!zero_on_host(config)) {
    step.resident.push_back(master);
    return;
  }
  std::int64_t largest = 0;
  for (const Parameter& parameter : step.parameters)
    largest = std::max(largest, p.value(parameter.value).shape.numel());
  const DType dtype = config.precision.compute_dtype;
  step.zero_buffer = p.make({largest}, dtype, Role::communication, root);
  const auto pin = [&](std::int64_t elements, DType type) {
    step.on_host.push_back({p.make({elements}, type, Role::parameter, module), no_id});
  };
  step.on_host.push_back(
      {master, p.make({partition.elements()}, DType::f32, Role::gradient, module)});
  pin(partition.elements(), dtype);
  pin(largest, dtype);  // temp_grad_buffer_for_cpu_offload
  if (config.layout.shard == Sharding::zero2 && config.run.grad_accum > 1)
    for (const ZeroPiece& piece : partition.pieces()) pin(piece.whole, dtype);
  step.resident.push_back(step.zero_buffer);
}

class Zero final : public GradientHooks {
 public:
  Zero(StepProgram& step, const StepConfig& config)
      : GradientHooks(step, config), mine_(step, config.layout.world) {}

 private:
  /// A gradient of the bucket: where it stands there, or itself where it is longer than a bucket.
  struct Filled {
    std::size_t parameter;
    ValueId gradient;
  };

  [[nodiscard]] bool stage1() const { return c_.layout.shard == Sharding::zero1; }
  [[nodiscard]] bool keeps_gradients() const override { return stage1() && !last(); }
  [[nodiscard]] std::int64_t elements(ValueId v) const { return p_.value(v).shape.numel(); }

  void on_gradient(std::size_t parameter, ValueId gradient) override {
    ValueId& bucket = stage1() ? s_.averaged : bucket_;  // stage 1's stays until the step
    if (bucket == no_id) {
      bucket = make_bucket();
      if (overlaps()) s_.second_bucket = make_bucket();
    }
    bucket_ = bucket;
    if (!stage1() || (last() && overlaps()))
      add({parameter, gradient});
    else if (last())
      waiting_.push_back({parameter, gradient});
  }

  void end_backward() override {
    if (keeps_gradients()) return;
    std::sort(waiting_.begin(), waiting_.end(),
              [](const Filled& a, const Filled& b) { return a.parameter < b.parameter; });
    for (const Filled& one : waiting_) add(one);
    flush();
    if (overlaps()) {
      // Both buckets, and where stage 1 alone partitions nothing, gradients longer than a bucket,
      // which stay the parameters' own.
      oversized_.insert(oversized_.end(), {bucket_, s_.second_bucket});
      emit(OpKind::hold, root, oversized_, {});
    }
    if (!stage1() && s_.averaged != no_id) {
      for (const ZeroPiece& piece : mine_.pieces())
        emit(OpKind::accumulate_inplace, root, {slice(s_.averaged, piece), slice(kept_, piece)},
             {});
      kept_ = s_.averaged;
    }
    if (!stage1()) s_.averaged = kept_;
    if (last()) begin_step();
  }

  [[nodiscard]] bool overlaps() const { return c_.layout.overlap_comm; }
  ValueId make_bucket() {
    const ValueId made =
        p_.make({bucket_elements}, c_.precision.compute_dtype, Role::communication, root);
    emit(OpKind::empty, root, {}, {made});
    return made;
  }
  [[nodiscard]] ValueId filling() const { return swapped_ ? s_.second_bucket : bucket_; }

  void add(const Filled& one) {
    const std::int64_t size = elements(one.gradient);
    if (filled_ + size > bucket_elements) {
      flush();
      swapped_ = overlaps() && !swapped_;
    }
    ValueId place = one.gradient;
    if (size > bucket_elements && zero_on_host(c_)) {  // clone()
      place = p_.make(p_.value(one.gradient).shape, c_.precision.compute_dtype, Role::gradient,
                      s_.parameters[one.parameter].module);
      kernel(one.gradient, {place});
    } else if (size <= bucket_elements) {
      place = p_.narrow(filling(), 0, filled_, size);
      copy(place, one.gradient, s_.parameters[one.parameter].module);
    } else if (stage1()) {
      oversized_.push_back(one.gradient);
    }
    in_bucket_.push_back({one.parameter, place});
    filled_ += size;
  }

  void copy(ValueId to, ValueId from, ir::ModulePath module, std::int32_t parameter = -1) {
    const ir::OpId id = emit(OpKind::bucket_copy, module, {to, from}, {});
    p_.op(id).attributes = ir::BucketCopy{parameter};
  }

  /// reduce_ipg_grads: average_tensor, then what stays of it.
  void flush() {
    if (in_bucket_.empty()) return;
    reduce();
    for (const Filled& one : in_bucket_) keep(one);
    in_bucket_.clear();
    filled_ = 0;
  }

  /// allreduce_and_scatter: runs of the bucket that belong to one rank, flattened together until
  /// they are longer than `bucket_elements`. One run alone is reduced where it stands.
  void reduce() {
    const bool own = in_bucket_.size() == 1 && filled_ > bucket_elements;
    const ValueId source = own ? in_bucket_.front().gradient : filling();
    std::vector<ZeroRun> runs, group;
    for (const Filled& one : in_bucket_) append_runs(runs, one.parameter);
    std::int64_t start = 0, length = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      group.push_back(runs[i]);
      length += runs[i].elements;
      if (length <= bucket_elements && i + 1 < runs.size()) continue;
      reduce_group(source, start, length, group);
      start += length;
      length = 0;
      group.clear();
    }
  }

  void append_runs(std::vector<ZeroRun>& runs, std::size_t parameter) {
    for (const ZeroRun& run : mine_.runs(parameter)) {
      if (!runs.empty() && runs.back().rank == run.rank)
        runs.back().elements += run.elements;
      else
        runs.push_back(run);
    }
  }

  void reduce_group(ValueId source, std::int64_t start, std::int64_t length,
                    const std::vector<ZeroRun>& group) {
    const std::int64_t all = elements(source);
    const ValueId flat = p_.value(source).shape.rank() == 1 ? source : p_.reshape(source, {all});
    const ValueId part = p_.narrow(flat, 0, start, length);
    if (group.size() == 1) {
      all_reduce(part);
      return;
    }
    const ValueId made = p_.make({length}, c_.precision.compute_dtype, Role::communication, root);
    if (overlaps()) s_.zero3.reduced.push_back(made);
    emit(OpKind::cat, root, {part}, {made});
    all_reduce(made);
    std::int64_t at = 0;
    for (const ZeroRun& run : group) {
      if (run.rank == mine_.rank() && !trained(c_)) {
        const ValueId own = p_.narrow(part, 0, at, run.elements);
        copy(own, p_.narrow(made, 0, at, run.elements), root);
      }
      at += run.elements;
    }
    if (trained(c_)) copy(part, made, root);  // any rank runs this program
  }

  /// Divided by the number of ranks (the trainer's collectives average), and waited for: it is not
  /// asynchronous where overlap_comm is off.
  void all_reduce(ValueId v) {
    if (!trained(c_)) kernel(v, {});
    emit(OpKind::all_reduce, root, {v}, {});
    emit(OpKind::hold, root, {v}, {});
  }

  void kernel(ValueId from, std::vector<ValueId> to) {
    const ir::OpId id = emit(OpKind::foreach, root, {from}, std::move(to));
    p_.op(id).attributes = ir::Foreach{0, 1, 1, false};
  }

  /// copy_grads_in_partition: a place for each parameter that reaches into the partition.
  void keep(const Filled& one) {
    const auto found =
        std::find_if(mine_.pieces().begin(), mine_.pieces().end(),
                     [&](const ZeroPiece& piece) { return piece.parameter == one.parameter; });
    if (found == mine_.pieces().end() && !trained(c_)) return;
    const ir::ModulePath module = s_.parameters[one.parameter].module;
    if (zero_on_host(c_)) {
      to_host(one, found->elements);
      return;
    }
    if (kept_ == no_id) {
      kept_ = p_.make({mine_.kept_elements()}, c_.precision.compute_dtype, Role::gradient, root);
      if (overlaps()) s_.zero3.reduced.push_back(kept_);
      emit(OpKind::empty, root, {}, {kept_});
    }
    if (trained(c_)) {  // what of it is this rank's
      copy(kept_, one.gradient, module, static_cast<std::int32_t>(one.parameter));
      return;
    }
    copy(p_.narrow(kept_, 0, kept_so_far_, elements(one.gradient)), one.gradient, module);
    kept_so_far_ += elements(one.gradient);
  }

  /// Of stage 1, whose gradients add up on the device, the last micro-batch's alone.
  void to_host(const Filled& one, std::int64_t elements) {
    const bool by_host = !stage1() && c_.run.grad_accum > 1;
    const ValueId norm = zero_gradient_to_host(
        p_,
        [&](OpKind kind, ir::ModulePath module, const std::vector<ValueId>& in,
            const std::vector<ValueId>& out) { return emit(kind, module, in, out); },
        {one.gradient, elements, s_.zero_buffer, by_host && micro_batch() > 0, by_host && !last(),
         last()});
    if (norm != no_id) norms_.push_back(norm);
  }

  /// As much of `kept` as a piece is long: where it stands depends on the order of gradients.
  ValueId slice(ValueId kept, const ZeroPiece& piece) {
    return p_.narrow(kept, 0, piece.kept_start, piece.whole);
  }

  /// is_invalid_grad_norm: isfinite (abs, ne, eq, and), not, less than, or, any.
  static constexpr std::int32_t invalid_norm_launches = 8;

  /// check_overflow: of each piece its largest and smallest element, either of which isfinite looks
  /// at, and how many are not finite; all ranks'. Then the norm of each piece in doubles
  /// (get_norm_dtype); what follows is of scalars: all pieces', all ranks', its root, isinf (two),
  /// isnan, or and masked_fill; combine_grad_norm_groups stacks it, looks at it as
  /// is_invalid_grad_norm does and takes the norm of it; it is looked at, and divided by the scale.
  void check_and_norm(OptimizerOps& ops) {
    constexpr std::int32_t of_piece = 11, of_all = 4, of_norm = 11, of_groups = 4;
    ops.op({}, {}, of_all);
    for (const ZeroPiece& piece : mine_.pieces()) {
      const OptimizerOps::Values part{p_.narrow(kept_, 0, piece.kept_start, piece.elements)};
      const std::int32_t launches = ir::whole_reduction_launches(piece.elements);
      for (int extreme = 0; extreme < 2; ++extreme)
        ops.op({&part}, {ops.temporary({}, c_.precision.compute_dtype)}, launches);
      ops.op({}, {}, of_piece);
    }
    for (const ZeroPiece& piece : mine_.pieces()) {
      // A double for each element: two fp32, as no tensor of a step is in fp64.
      const OptimizerOps::Values wide{ops.temporary({piece.elements, 2}, DType::f32)};
      ops.kernel({p_.narrow(kept_, 0, piece.kept_start, piece.elements)}, wide);
      ops.op({&wide}, {ops.temporary({}, DType::f32)},
             ir::whole_reduction_launches(piece.elements));
    }
    ops.op({}, {}, of_norm + of_groups + 2 * invalid_norm_launches + 1);
  }

  /// step(): its gradients are looked at; then the partition's gradient,
  /// flattened where it is of several parameters, in fp32.
  void begin_step() {
    OptimizerOps ops(s_);
    if (zero_on_host(c_)) {
      ops.hold(norms_);
      s_.optimized.front().gradient = s_.on_host.front().gradient;
      return;
    }
    if (!trained(c_)) check_and_norm(ops);
    ValueId flat = p_.narrow(kept_, 0, 0, mine_.elements());
    if (mine_.pieces().size() > 1 && !trained(c_)) {
      const ValueId joined = ops.temporary({mine_.elements()}, c_.precision.compute_dtype);
      ops.kernel({flat}, {joined});
      flat = joined;
    }
    const ValueId wide =
        p_.make({mine_.elements()}, DType::f32, Role::temporary, {-1, ir::Module::optimizer});
    emit(OpKind::cast, {-1, ir::Module::optimizer}, {flat}, {wide});
    p_.ops.back().phase = ir::Phase::optimizer;
    ops.hold({kept_});
    if (c_.optimizer.clip_grad > 0) {  // unscale_and_clip_grads: the coefficient, mul_
      if (!trained(c_)) ops.op({}, {}, invalid_norm_launches + 7);
      ops.kernel({wide}, {});
    }
    s_.optimized.front().gradient = wide;
  }

  ZeroPartition mine_;
  std::vector<Filled> in_bucket_, waiting_;
  std::vector<ValueId> oversized_;  ///< stage 1: gradients that are longer than a bucket
  std::vector<ValueId> norms_;      ///< of gradients that have left for the host
  std::int64_t filled_ = 0, kept_so_far_ = 0;
  bool swapped_ = false;  ///< the second bucket is filled
  ValueId bucket_ = no_id, kept_ = no_id;
};

bool applies(const StepConfig& config) { return config.layout.zero() && !config.layout.zero3(); }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Zero(step, config).rewrite();
}

/// The updated partition goes to the parameters in their own dtype, and to the other ranks, in
/// place.
void gather(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  ir::Program& p = step.program;
  const ValueId master = step.optimized.front().parameter;
  std::vector<ValueId> in{master};
  if (zero_on_host(config)) {  // it is cast there, into a pinned buffer
    in = {step.on_host[1].parameter};
    OptimizerOps ops(step);
    ops.op({&in}, {}, 0, OpKind::copy_from_host);
    ops.hold(in);
  }
  for (const Parameter& parameter : step.parameters)
    if (parameter.trained) in.push_back(parameter.value);
  const std::int32_t group = p.ops.back().group + 1;
  p.emit(OpKind::all_gather, ir::Phase::optimizer, {-1, ir::Module::optimizer}, in, {});
  p.ops.back().group = group;
}

constexpr Exclusion exclusions_of_zero[] = {
    {"--overlap-comm --offload optimizer, or ac-trainer",
     "gradients that leave for the host beside reductions are not planned, and the trainer reduces "
     "in line",
     "use --no-overlap-comm",
     [](const model::ModelSpec&, const StepConfig& c) {
       return c.layout.overlap_comm && (zero_on_host(c) || c.runtime.kind == Runtime::ac_trainer);
     }},
    {"--no-sync --shard zero1 or zero2",
     "ZeRO 1 always reduces the last micro-batch alone, ZeRO 2 every one", "leave --no-sync out",
     [](const model::ModelSpec&, const StepConfig& c) { return c.layout.no_sync && applies(c); },
     [](const model::ModelSpec&, const StepConfig& c) {
       return "--no-sync --shard " + shard_option(c);
     }},
};

}  // namespace

extern const Pass zero_partition_pass, zero_pass, zero_gather_pass;
const Pass zero_partition_pass{
    "zero-partition", Stage::before,  "zero1, zero2: this rank's fp32 partition of what is trained",
    applies,          make_partition, {},
    Of::pytorch};
const Pass zero_pass{"zero",
                     Stage::micro_batch,
                     "zero1, zero2: gradients through a bucket into what the partition keeps",
                     applies,
                     run,
                     exclusions_of_zero,
                     Of::pytorch};
const Pass zero_gather_pass{
    "zero-gather", Stage::step, "zero1, zero2: the updated partition back into the parameters",
    applies,       gather,      {},
    Of::pytorch};

}  // namespace ac_advisor::passes
