// Tensor and pipeline parallelism: the collectives of a layer's parts, what a copy rearranges for
// them, lookups in a part of the vocabulary, and messages between stages.
#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {
namespace {

/// The rank that a message goes to or comes from, and a number that no other message between the
/// two has: a stage's neighbours by what it is.
Transfer transfer(const Call& c, const passes::Message& message, const at::Tensor& tensor) {
  using What = passes::Message::What;
  const passes::PipelineRank rank = passes::pipeline_rank(c.executor().config());
  const bool forward = message.what == What::input || message.what == What::output;
  const bool sends = message.what == What::output || message.what == What::input_gradient;
  const bool before = message.what == What::input || message.what == What::input_gradient;
  const std::int64_t stage = rank.stage(message.chunk), other = stage + (before ? -1 : 1);
  const std::int64_t border = std::min(stage, other) * 2 + (forward ? 0 : 1);
  return {tensor, c.executor().mesh().in_stage(other % rank.ranks),
          static_cast<std::int32_t>(border * rank.micro_batches + message.micro), sends};
}

/// Ulysses' copies; `all` has (ranks, S / ranks, B, …). What is seen in another shape lies in
/// memory as it was made.
void rearrange_for_heads(const at::Tensor& x, const at::Tensor& y, const ir::Rearrange& how) {
  using ir::Moved;
  const std::int64_t ranks = how.ranks;
  const auto in_parts = [&](const at::Tensor& all) { return all.unflatten(0, {ranks, -1}); };
  switch (how.what) {
    case Moved::heads_repeated:
      y.unflatten(1, {-1, how.ranks}).copy_(x.unsqueeze(2));
      break;
    case Moved::heads_apart:
      in_parts(y).copy_(x.unflatten(1, {ranks, -1}).permute({1, 3, 0, 2, 4}));
      break;
    case Moved::heads_together:
      y.unflatten(1, {ranks, -1}).copy_(in_parts(x).permute({2, 0, 3, 1, 4}));
      break;
    case Moved::tokens_first:
      y.copy_(x.view({y.size(1), y.size(2), y.size(0), y.size(3)}).permute({2, 0, 1, 3}));
      break;
    case Moved::tokens_last:
      y.copy_(x.permute({1, 2, 0, 3}));
      break;
    case Moved::widths_together:
      y.unflatten(2, {ranks, -1}).copy_(in_parts(x).permute({1, 2, 0, 3}));
      break;
    case Moved::widths_apart:
      in_parts(y).copy_(
          x.view({y.size(1), y.size(0) / ranks, ranks, y.size(2)}).permute({2, 1, 0, 3}));
      break;
    default:  // sequences inside, or outside
      y.copy_(x.transpose(0, 1));
  }
}

}  // namespace

/// The parts of a [B, S, W] tensor lie rank after rank along dim 0. What counts is the order in
/// memory: the program's views of the whole may have the parts' shape.
void rearrange(const at::Tensor& x, const at::Tensor& y, const ir::Rearrange& how) {
  if (how.what >= ir::Moved::heads_repeated) return rearrange_for_heads(x, y, how);
  if (how.what == ir::Moved::words_together) {
    const at::Tensor parts = x.view({how.ranks, -1, x.size(-1)});
    y.view({parts.size(1), how.ranks, parts.size(2)}).copy_(parts.transpose(0, 1));
    return;
  }
  const bool apart = how.what == ir::Moved::tokens_apart;
  const at::Tensor& parts = apart ? y : x;
  const std::int64_t sequences = parts.size(0) / how.ranks, tokens = parts.size(1),
                     width = parts.size(2), first = apart ? sequences : how.ranks,
                     second = apart ? how.ranks : sequences;
  y.view({second, first, tokens, width})
      .copy_(x.view({first, second, tokens, width}).transpose(0, 1));
}

void tp_all_gather(const Call& c) {
  const Group group = c.executor().mesh().tensor_parallel();
  const at::Tensor part = c.in(0), all = c.out();
  all.view({-1})
      .narrow(0, c.executor().mesh().tp_rank() * part.numel(), part.numel())
      .copy_(part.reshape({-1}));
  c.executor().begin(c.executor().collectives().all_gather(all, group), {c.out_storage(0)});
}

void tp_reduce_scatter(const Call& c) {
  const Group group = c.executor().mesh().tensor_parallel();
  c.executor().begin(
      c.executor().collectives().reduce_scatter(c.in(0), c.out(), group, Combine::sum),
      {c.in_storage(0), c.out_storage(0)});
}

/// Into a new tensor, as functional collectives do, or in place.
void tp_all_reduce(const Call& c) {
  const auto [maximum, over, stages] = c.attributes<ir::TpReduce>();
  Executor& executor = c.executor();
  const Mesh& mesh = executor.mesh();
  const Group group = over == ir::ReducedOver::layer  ? mesh.tensor_parallel()
                      : over == ir::ReducedOver::ends ? mesh.ends(executor.config().layout.pp)
                                                      : mesh.stages(stages);
  const at::Tensor y = c.outputs() > 0 ? c.out() : c.in(0);
  if (c.outputs() > 0) y.copy_(c.in(0).view_as(y));
  executor.begin(
      executor.collectives().all_reduce(y, group, maximum ? Combine::maximum : Combine::sum),
      {c.outputs() > 0 ? c.out_storage(0) : c.in_storage(0)});
}

void send_recv(const Call& c) {
  Executor& executor = c.executor();
  const auto index = static_cast<std::size_t>(c.attributes<ir::SendReceive>().exchange);
  const std::vector<passes::Message>& messages = executor.step().exchanges[index];
  std::vector<Transfer> batch;
  for (std::size_t i = 0; i < messages.size(); ++i)
    batch.push_back(transfer(c, messages[i], c.in(i)));
  std::vector<ir::StorageId> storages;
  for (std::size_t i = 0; i < messages.size(); ++i) storages.push_back(c.in_storage(i));
  executor.begin(executor.collectives().exchange(batch), storages);
}

/// Into a new tensor, rank after rank.
void cp_all_gather(const Call& c) {
  Executor& executor = c.executor();
  const Group group = executor.mesh().context_parallel();
  const at::Tensor part = c.in(0), all = c.out();
  all.narrow(0, executor.mesh().cp_rank() * part.numel(), part.numel()).copy_(part);
  executor.begin(executor.collectives().all_gather(all, group), {c.out_storage(0)});
}

void cp_all_to_all(const Call& c) {
  Executor& executor = c.executor();
  executor.begin(
      executor.collectives().all_to_all(c.in(0), c.out(), executor.mesh().context_parallel()),
      {c.in_storage(0), c.out_storage(0)});
}

void cp_reduce_scatter(const Call& c) {
  Executor& executor = c.executor();
  executor.begin(executor.collectives().reduce_scatter(
                     c.in(0), c.out(), executor.mesh().context_parallel(), Combine::sum),
                 {c.in_storage(0), c.out_storage(0)});
}

/// To the next rank that shares the sequences, from the one before.
void ring_exchange(const Call& c) {
  Executor& executor = c.executor();
  const Mesh& mesh = executor.mesh();
  const Group group = mesh.context_parallel();
  const std::int64_t own = mesh.cp_rank();
  const std::int32_t tag = executor.next_message();
  const std::vector<Transfer> batch{
      {c.in(0), group.member((own + 1) % group.size), tag, /*sends=*/true},
      {c.out(), group.member((own + group.size - 1) % group.size), tag, /*sends=*/false}};
  executor.begin(executor.collectives().exchange(batch), {c.in_storage(0), c.out_storage(0)});
}

/// Each rank's part of the rows, of equal size, to that rank.
void all_to_all(const Call& c) {
  Executor& executor = c.executor();
  executor.begin(
      executor.collectives().all_to_all(c.in(0), c.out(), executor.mesh().expert_parallel()),
      {c.in_storage(0), c.out_storage(0)});
}

/// inputs: what is written over, and which of its first sizes are zero from here on
void mask_shard(const Call& c) {
  const MemoryTracker::Scope outside(nullptr);  // a kernel reads the mask as it is
  at::Tensor x = c.out();
  const at::Tensor mask = c.in(1).view(at::kBool);
  x.view({mask.numel(), -1}).masked_fill_(mask.view({-1, 1}), 0);
}

void amax(const Call& c) {
  at::Tensor y = c.out();
  at::amax_out(y, c.in(0), {-1}, /*keepdim=*/true);
}

/// Of each row the entry that an index names.
void gather(const Call& c) {
  at::Tensor y = c.out();
  at::gather_out(y, c.in(0), -1, c.in(1).view(y.sizes()));
}

/// inputs: what is written over, rows, columns, what is put there
void put_in_rows(const Call& c) {
  const MemoryTracker::Scope outside(nullptr);
  at::Tensor x = c.out();
  x.scatter_(1, c.in(2).view({-1, 1}), c.in(3).view({-1, 1}));
}

}  // namespace ac_advisor::trainer::aten
