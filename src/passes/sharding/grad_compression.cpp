// Communication hooks of DistributedDataParallel, PyTorch v2.11, torch/distributed/algorithms/
// ddp_comm_hooks/default_hooks.py (bf16, fp16) and powerSGD_hook.py (error feedback, warm start,
// min_compression_rate 2, one matrix at a time), and examples/grad_compression/topk_hook.py.
#include "grad_compression.hpp"

#include <algorithm>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using ir::Shape;
using ir::ValueId;

constexpr ir::ModulePath root{-1, ir::Module::root};

class Hook {
 public:
  Hook(StepProgram& step, const StepConfig& config, const CompressedBucket& kept,
       std::int32_t& group)
      : s_(step), p_(step.program), c_(config), kept_(kept), group_(group) {}

  void cast() {
    const DType narrow = c_.compression.kind == Compression::bf16 ? DType::bf16 : DType::f16;
    if (dtype() == narrow) {  // Tensor.to makes no copy
      divide(kept_.bucket);
      emit(OpKind::all_reduce, {kept_.bucket}, {});
      return;
    }
    const ValueId sent = make({elements()}, narrow);
    s_.surviving.push_back(sent);  // the reducer holds its future until the next forward
    emit(OpKind::cast, {kept_.bucket}, {sent});
    divide(sent);
    emit(OpKind::all_reduce, {sent}, {});
    emit(OpKind::bucket_copy, {kept_.bucket, sent}, {});
  }

  void largest() {
    emit(OpKind::accumulate_inplace, {kept_.bucket, kept_.error}, {});
    const std::int64_t k = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(c_.compression.ratio * static_cast<double>(elements())));
    const ValueId magnitudes = make({elements()}, dtype());
    emit(OpKind::abs, {kept_.bucket}, {magnitudes});
    const ValueId top = make({k}, dtype()), indices = make({k}, DType::i64);
    emit(OpKind::topk, {magnitudes}, {top, indices}, ir::TopK{static_cast<std::int32_t>(k)});
    const ValueId values = make({k}, dtype());
    emit(OpKind::index, {kept_.bucket, indices}, {values});
    emit(OpKind::bucket_copy, {kept_.error, kept_.bucket}, {});
    emit(OpKind::index_fill, {kept_.error, indices}, {});
    const std::int64_t world = c_.layout.world;
    const ValueId all_values = make({world * k}, dtype()),
                  all_indices = make({world * k}, DType::i64);
    emit(OpKind::empty, {}, {all_values});
    emit(OpKind::empty, {}, {all_indices});
    emit(OpKind::all_gather, {all_values, values}, {});
    emit(OpKind::all_gather, {all_indices, indices}, {});
    emit(OpKind::fill, {}, {again(kept_.bucket)}, ir::Number{0.0});
    emit(OpKind::index_add, {kept_.bucket, all_indices, all_values}, {});
    emit(OpKind::div, {kept_.bucket}, {again(kept_.bucket)},
         ir::Number{static_cast<double>(world)});
    emit(OpKind::hold, {indices, values}, {});
  }

  void factors() {
    emit(OpKind::accumulate_inplace, {kept_.bucket, kept_.error}, {});
    const ValueId before = make({elements()}, dtype());
    emit(OpKind::clone, {kept_.bucket}, {before});
    const ValueId whole = join_whole();
    for (const FactoredGradient& f : kept_.factored) emit(OpKind::orthogonalize, {q_of(f)}, {});
    for (const FactoredGradient& f : kept_.factored)
      product(gradient(f), q_of(f), p_of(f), f.columns, ir::Form::nn);
    if (whole != ir::no_id) {
      emit(OpKind::all_reduce, {whole}, {});
      divide(whole);
      std::int64_t begin = 0;
      for (const auto& [first, size] : kept_.whole) {
        emit(OpKind::bucket_copy,
             {p_.narrow(kept_.bucket, 0, first, size), p_.narrow(whole, 0, begin, size)}, {});
        begin += size;
      }
    }
    if (kept_.p != ir::no_id) {
      emit(OpKind::all_reduce, {kept_.p}, {});
      for (const FactoredGradient& f : kept_.factored) emit(OpKind::orthogonalize, {p_of(f)}, {});
      for (const FactoredGradient& f : kept_.factored)
        product(gradient(f), p_of(f), q_of(f), f.rows, ir::Form::tn);
      emit(OpKind::all_reduce, {kept_.q}, {});
      divide(kept_.q);
      for (const FactoredGradient& f : kept_.factored)
        product(p_of(f), q_of(f), gradient(f), f.rank, ir::Form::nt);
    }
    const ValueId error = make({elements()}, dtype());
    emit(OpKind::add, {before, kept_.bucket}, {error}, ir::Add{-1.0});
    // PyTorch's dictionary holds the new tensor from here on.
    if (c_.runtime.kind == Runtime::ac_trainer) emit(OpKind::bucket_copy, {kept_.error, error}, {});
    emit(OpKind::hold,
         whole == ir::no_id ? std::vector<ValueId>{before, error}
                            : std::vector<ValueId>{before, whole, error},
         {});
  }

 private:
  [[nodiscard]] DType dtype() const { return p_.value(kept_.bucket).dtype; }
  [[nodiscard]] std::int64_t elements() const { return p_.value(kept_.bucket).shape.numel(); }

  ValueId make(const Shape& shape, DType dtype) {
    return p_.make(shape, dtype, ir::Role::temporary, root);
  }
  /// The same tensor, written over.
  ValueId again(ValueId v) {
    return p_.on_storage_of(v, p_.value(v).shape, p_.value(v).dtype, true);
  }
  void emit(OpKind kind, const std::vector<ValueId>& in, const std::vector<ValueId>& out,
            const ir::Attributes& attributes = {}) {
    const ir::OpId id = p_.emit(kind, ir::Phase::backward, root, in, out, attributes);
    p_.op(id).group = group_--;
  }
  /// PyTorch's collectives sum; the trainer's average.
  void divide(ValueId v) {
    if (c_.runtime.kind == Runtime::pytorch)
      emit(OpKind::div, {v}, {again(v)}, ir::Number{static_cast<double>(c_.layout.world)});
  }

  ValueId matrix(ValueId of, std::int64_t begin, std::int64_t rows, std::int64_t columns) {
    return p_.reshape(p_.narrow(of, 0, begin, rows * columns), {rows, columns});
  }
  ValueId gradient(const FactoredGradient& f) {
    return matrix(kept_.bucket, f.in_bucket, f.rows, f.columns);
  }
  ValueId p_of(const FactoredGradient& f) { return matrix(kept_.p, f.in_p, f.rows, f.rank); }
  ValueId q_of(const FactoredGradient& f) { return matrix(kept_.q, f.in_q, f.columns, f.rank); }
  void product(ValueId a, ValueId b, ValueId into, std::int64_t inner, ir::Form form) {
    emit(OpKind::mm, {a, b}, {into}, ir::Product{static_cast<std::int32_t>(inner), form});
  }

  /// torch.cat of what is sent as it is; no_id: nothing is.
  ValueId join_whole() {
    std::int64_t size = 0;
    std::vector<ValueId> parts;
    for (const auto& [first, part] : kept_.whole) {
      parts.push_back(p_.narrow(kept_.bucket, 0, first, part));
      size += part;
    }
    if (parts.empty()) return ir::no_id;
    const ValueId joined = make({size}, dtype());
    emit(OpKind::cat, parts, {joined});
    return joined;
  }

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  const CompressedBucket& kept_;
  std::int32_t& group_;
};

/// _should_compress, with min_compression_rate 2.
bool compressible(const FactoredGradient& f) {
  return 2 * (f.rows + f.columns) * f.rank < f.rows * f.columns;
}

}  // namespace

void keep_for_compression(StepProgram& step, const StepConfig& config, ValueId bucket,
                          const std::vector<BucketPart>& parts) {
  ir::Program& p = step.program;
  CompressedBucket kept;
  kept.bucket = bucket;
  const DType dtype = p.value(bucket).dtype;
  const auto keep = [&](std::int64_t elements) {
    const ValueId v = p.make({elements}, dtype, ir::Role::gradient, root);
    step.resident.push_back(v);
    return v;
  };
  const Compression kind = config.compression.kind;
  if (kind == Compression::topk || kind == Compression::powersgd)
    kept.error = keep(p.value(bucket).shape.numel());
  if (kind == Compression::powersgd) {
    std::int64_t p_size = 0, q_size = 0;
    for (const BucketPart& part : parts) {
      FactoredGradient f;
      f.rows = part.shape.rank() > 0 ? part.shape[0] : 1;
      f.columns = part.shape.numel() / f.rows;
      f.rank = std::min({f.rows, f.columns, config.compression.rank});
      f.in_bucket = part.begin;
      f.in_p = p_size;
      f.in_q = q_size;
      if (!compressible(f)) {
        kept.whole.emplace_back(part.begin, part.shape.numel());
        continue;
      }
      p_size += f.rows * f.rank;
      q_size += f.columns * f.rank;
      kept.factored.push_back(f);
    }
    if (!kept.factored.empty()) {
      kept.p = keep(p_size);
      kept.q = keep(q_size);
    }
  }
  step.compressed.push_back(std::move(kept));
}

void append_compression(StepProgram& step, const StepConfig& config, const CompressedBucket& kept,
                        std::int32_t& group) {
  Hook hook(step, config, kept, group);
  switch (config.compression.kind) {
    case Compression::bf16:
    case Compression::fp16:
      return hook.cast();
    case Compression::topk:
      return hook.largest();
    case Compression::powersgd:
      return hook.factors();
    case Compression::none:
      return;
  }
}

namespace {

using model::ModelSpec;

bool trained(const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }
std::string given(const ModelSpec&, const StepConfig& c) {
  return "--grad-compression " + compression_option(c);
}

constexpr Exclusion of_compression[] = {
    {"--grad-compression HOW --grad-accum K", "every micro-batch's backward would send the bucket",
     "add --no-sync",
     [](const ModelSpec&, const StepConfig& c) {
       return c.compression.used() && c.run.grad_accum > 1 && !c.layout.no_sync;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return given(m, c) + " --grad-accum " + std::to_string(c.run.grad_accum);
     }},
    {"--grad-compression powersgd:RANK of 3 or more, gradients in fp32",
     "PyTorch orthogonalizes them by cuSOLVER, whose memory is not known here",
     "use a rank of 1 or 2, or gradients in bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return c.compression.kind == Compression::powersgd && c.compression.rank > 2 &&
              trained_dtype(c) == DType::f32 && !trained(c);
     },
     given},
    {"--grad-compression HOW --grad-scaler", "whether scaled errors are kept is the loop's to say",
     "leave --grad-scaler out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.compression.used() && c.optimizer.grad_scaler;
     },
     [](const ModelSpec& m, const StepConfig& c) { return given(m, c) + " --grad-scaler"; }},
    {"--grad-compression HOW, ac-trainer on a GPU",
     "the trainer's kernels for it are the CPU's alone", "use --gpu cpu",
     [](const ModelSpec&, const StepConfig& c) {
       return c.compression.used() && trained(c) && c.device.gpu != "cpu";
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return given(m, c) + " --gpu " + c.device.gpu;
     }},
};

}  // namespace

extern const ExclusionGroup compression_exclusions;
const ExclusionGroup compression_exclusions{"--grad-compression", of_compression};

}  // namespace ac_advisor::passes
