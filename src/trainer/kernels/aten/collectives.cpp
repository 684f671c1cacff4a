// Copies into and out of communication buffers, and the collectives on them. Layouts are FSDP2's:
// a gathered buffer is [rank][parameter shards], each shard dim-0 rows padded to the same number.
#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {
namespace {

/// Whether it is of experts that not all ranks have.
bool of_experts(const Call& c) {
  const auto* experts = std::get_if<ir::ExpertShards>(&c.op().attributes);
  return experts != nullptr && experts->ranks > 0;
}

/// Ranks that a parameter is cut over, and this one's place among them.
Group sharded(const Call& c) {
  const Mesh& mesh = c.executor().mesh();
  return of_experts(c) ? mesh.expert_sharded() : mesh.sharded();
}
std::int64_t place(const Call& c) {
  const Mesh& mesh = c.executor().mesh();
  return of_experts(c) ? mesh.expert_shard() : mesh.shard();
}

/// The parameter rows that rank r of the group has; fewer, or none, at the end.
std::pair<std::int64_t, std::int64_t> rows_of(const at::Tensor& whole, std::int64_t rank,
                                              std::int64_t ranks) {
  const std::int64_t rows = (whole.size(0) + ranks - 1) / ranks;
  const std::int64_t begin = std::min(rank * rows, whole.size(0));
  return {begin, std::min(begin + rows, whole.size(0))};
}

}  // namespace

void all_gather_copy_in(const Call& c) {
  const at::Tensor buffer = c.out();
  std::int64_t start = place(c) * (buffer.numel() / sharded(c).size);
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const at::Tensor shard = c.in(i);
    buffer.narrow(0, start, shard.numel()).copy_(shard);
    start += shard.numel();
  }
}

/// In place on an FSDP buffer; after ZeRO's optimizer, the updated partition into the parameters.
void all_gather(const Call& c) {
  Executor& executor = c.executor();
  if (c.op().phase != ir::Phase::optimizer) {
    if (c.inputs() > 1) {  // from a tensor of its own
      const at::Tensor all = c.in(0), own = c.in(1);
      all.narrow(0, place(c) * own.numel(), own.numel()).copy_(own);
    }
    executor.begin(executor.collectives().all_gather(c.in(0), sharded(c)), {c.in_storage(0)});
    return;
  }
  // A partition is a range of the parameters one after another, so the gathered flat list lies in
  // the parameters themselves; it goes through one buffer a rank at a time.
  const at::Tensor partition = c.in(0);
  const std::int64_t world = executor.collectives().world(), rank = executor.collectives().rank(),
                     size = partition.numel();
  const at::Tensor flat = at::empty({world * size}, partition.options());
  flat.narrow(0, rank * size, size).copy_(partition);
  complete(executor.collectives().all_gather(flat, executor.collectives().all()));
  std::int64_t start = 0;
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    const at::Tensor parameter = c.in(i);
    if (executor.collectives().real()) {
      parameter.view({-1}).copy_(flat.narrow(0, start, parameter.numel()));
    } else {  // only this rank's range is known
      const std::int64_t begin = std::max(start, rank * size),
                         end = std::min(start + parameter.numel(), (rank + 1) * size);
      if (begin < end)
        parameter.view({-1})
            .narrow(0, begin - start, end - begin)
            .copy_(flat.narrow(0, begin, end - begin));
    }
    start += parameter.numel();
  }
}

void all_gather_copy_out(const Call& c) {
  const at::Tensor buffer = c.in(0);
  const std::int64_t group = sharded(c).size, part = buffer.numel() / group;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.outputs(); ++i) {
    const at::Tensor whole = c.out(i);
    const std::int64_t row = whole.numel() / whole.size(0);
    const std::int64_t rows = (whole.size(0) + group - 1) / group;
    for (std::int64_t r = 0; r < group; ++r) {
      const auto [begin, end] = rows_of(whole, r, group);
      if (begin == end) continue;
      const at::Tensor shard = buffer.narrow(0, r * part + start, (end - begin) * row);
      whole.narrow(0, begin, end - begin).view({-1}).copy_(shard);
    }
    start += rows * row;
  }
}

void reduce_scatter_copy_in(const Call& c) {
  const at::Tensor buffer = c.out();
  const std::int64_t group = sharded(c).size, part = buffer.numel() / group;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const at::Tensor gradient = c.in(i);
    const std::int64_t row = gradient.numel() / gradient.size(0);
    const std::int64_t rows = (gradient.size(0) + group - 1) / group;
    for (std::int64_t r = 0; r < group; ++r) {
      const auto [begin, end] = rows_of(gradient, r, group);
      const at::Tensor place = buffer.narrow(0, r * part + start, rows * row);
      if (end - begin < rows) place.zero_();  // chunk_cat pads with zeros
      if (begin < end)
        place.narrow(0, 0, (end - begin) * row)
            .copy_(gradient.narrow(0, begin, end - begin).reshape({-1}));
    }
    start += rows * row;
  }
}

/// Of experts the sum, which the program divides.
void reduce_scatter(const Call& c) {
  Executor& executor = c.executor();
  const Combine how = of_experts(c) ? Combine::sum : Combine::average;
  executor.begin(executor.collectives().reduce_scatter(c.in(0), c.out(), sharded(c), how),
                 {c.in_storage(0), c.out_storage(0)});
}

/// A DDP bucket; the shards of a HSDP group; a part of a ZeRO bucket; or, of clip_grad_norm_,
/// squares of shards' norms.
void all_reduce(const Call& c) {
  Executor& executor = c.executor();
  if (c.op().phase == ir::Phase::optimizer)
    return complete(executor.collectives().all_reduce(c.in(0), sharded(c), Combine::sum));
  const StepConfig& config = executor.config();
  const bool hsdp = config.layout.shard == Sharding::hsdp;
  auto begun = executor.collectives().all_reduce(
      c.in(0), hsdp ? executor.mesh().replicas() : executor.mesh().data_parallel(),
      of_experts(c) ? Combine::sum : Combine::average);
  if (config.layout.zero())
    complete(begun);  // overlap_comm is off
  else
    executor.begin(std::move(begun), {c.in_storage(0)});
}

/// ZeRO: what of this gradient is in this rank's partition, to its place there.
void copy_own(const Call& c, std::size_t parameter) {
  const passes::StepProgram& step = c.executor().step();
  const auto elements = [&](ir::ValueId v) { return step.program.value(v).shape.numel(); };
  const std::int64_t size = elements(step.optimized.front().parameter),
                     first = c.executor().collectives().rank() * size;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < parameter; ++i) start += elements(step.parameters[i].value);
  const std::int64_t begin = std::max(start, first),
                     end =
                         std::min(start + elements(step.parameters[parameter].value), first + size);
  if (begin < end)
    c.in(0)
        .narrow(0, begin - first, end - begin)
        .copy_(c.in(1).reshape({-1}).narrow(0, begin - start, end - begin));
}

void bucket_copy(const Call& c) {
  const std::int32_t parameter = c.attributes<ir::BucketCopy>().parameter;
  if (c.executor().config().layout.zero() && parameter >= 0)
    return copy_own(c, static_cast<std::size_t>(parameter));
  const at::Tensor place = c.in(0), gradient = c.in(1);
  place.copy_(gradient.reshape(place.sizes()));
}

}  // namespace ac_advisor::trainer::aten
