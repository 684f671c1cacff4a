#include "ac_advisor/simulate/reserved.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ac_advisor/ir/scratch.hpp"
#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/simulate/caching_allocator.hpp"
#include "ir/library_products.hpp"

namespace ac_advisor::simulate {
namespace {

/// The stream that such an op's outputs are allocated on, where it is not their storage's: FSDP2's
/// reductions, and TRL's s1, on which --offload activations brings tensors back. (Shards come back
/// on the stream of all-gather's copy-in, which is their storage's.)
std::optional<int> output_stream(const ir::Op& op, bool flat) {
  switch (op.kind) {
    case ir::OpKind::reduce_scatter_copy_in:
      return 0;
    case ir::OpKind::reduce_scatter:
      return 2;
    case ir::OpKind::cat:
    case ir::OpKind::fill:
    case ir::OpKind::accumulate:  // of FSDP1: find_streams
      if (!flat || op.module.leaf != ir::Module::fsdp) return std::nullopt;
      return 4;
    case ir::OpKind::copy_from_host:
      return op.module.leaf == ir::Module::fsdp ? 1 : 3;
    default:
      return std::nullopt;
  }
}

/// Segments of one stream serve no other, as those of a CUDA graph's pool do.
constexpr int pool_stream = 7;

using Handle = CachingAllocator::Handle;
constexpr int most_more_steps = 4;  ///< that are walked until one leaves the allocator as before
constexpr Handle not_allocated = -2, in_first_bucket = -3, in_flat_parameters = -4;

class Steps {
 public:
  Steps(const passes::StepProgram& step, const passes::Schedule& schedule, const MemoryModel& model,
        std::int64_t cublas_handles, const AllocatorOptions& options,
        const RequestObserver& observer)
      : p_(step.program),
        step_(step),
        s_(schedule),
        m_(model),
        handles_(cublas_handles),
        observer_(observer),
        limited_(options.limit_bytes > 0),
        allocator_(options),
        handle_(p_.storages.size(), not_allocated),
        resident_(p_.storages.size(), false) {
    for (ir::StorageId s : s_.resident) resident_[static_cast<std::size_t>(s)] = true;
    find_scratch();
    find_kept_gradients();
    blocks_.storages.resize(p_.storages.size());
    find_streams();
    find_buckets();
    blocks_.scratch.resize(p_.ops.size());
  }

  AllocatorWalk run() {
    set_up();
    warms_up_ = m_.pool != nullptr;
    walk();
    warms_up_ = false;
    result_.first_step_peak = allocator_.peak_allocated();
    note_reserved();
    release_survivors();
    if (!buckets_.empty()) {
      result_.rebuilding_peak = result_.first_step_peak;
      if (!reduces_again_) {
        rebuild_buckets();
        allocator_.reset_peaks();
        walk();
        result_.rebuilding_peak = allocator_.peak_allocated();
        release_survivors();
      }
    }
    walk_until_alike();
    for (int more = 0; limited_ && more < most_more_steps && !settled(); ++more) {
      release_survivors();
      walk();
    }
    if (observer_) observer_(allocator_, {});
    note_reserved();
    result_.blocks = std::make_shared<BlockSizes>(std::move(blocks_));
    return std::move(result_);
  }

 private:
  /// What is there before the first step.
  void set_up() {
    for (ir::StorageId s : buckets_) handle_[static_cast<std::size_t>(s)] = in_first_bucket;
    flatten_parameters();
    make_resident();
    make_first_bucket();
    make_masters();
    init_flat_parameters();
    if (m_.target.trainer) use_cublas(0);
  }

  /// What a step finds. Where buffers are made anew, that is done before there is a batch.
  void make_resident() {
    const bool batch_last = !step_.made_anew.empty();
    for (ir::StorageId s : s_.resident)
      if (!made_in_first_step(s) && !(batch_last && p_.storage(s).role == ir::Role::input))
        make_anew(s);
    if (!batch_last) return;
    allocator_.empty_cache();
    for (ir::StorageId s : s_.resident)
      if (p_.storage(s).role == ir::Role::input && !made_in_first_step(s)) allocate(s);
  }

  /// What a buffer is made of beside one of its size goes when it is there: a hole before it.
  void make_anew(ir::StorageId s) {
    std::vector<Handle> beside;
    for (const passes::MadeAnew& made : step_.made_anew)
      if (p_.storage_of(made.buffer) == s)
        for (std::int64_t bytes : made.beside) beside.push_back(request(bytes, ir::no_id));
    allocate(s);
    for (Handle handle : beside) give_back(handle, ir::no_id);
  }

  void note_reserved() {
    result_.peak_reserved = std::max(result_.peak_reserved, allocator_.peak_reserved());
  }

  /// Of each block, by address: whether a segment begins, bytes, stream, pool, whether it is used.
  using Left = std::vector<std::tuple<bool, std::int64_t, int, bool, bool>>;

  /// A step left the allocator as the one before did, so that the next is the same; or there is no
  /// more to be seen. (Steps that release as often may leave other blocks, and the next differs.)
  bool settled() {
    if (result_.refused || allocator_.retries() == 0) return true;
    using Block = CachingAllocator::BlockInfo;
    std::vector<Block> blocks = allocator_.snapshot();
    std::sort(blocks.begin(), blocks.end(),
              [](const Block& a, const Block& b) { return a.address < b.address; });
    Left left;
    std::int64_t segment = -1;
    for (const Block& b : blocks)
      left.emplace_back(std::exchange(segment, b.segment) != b.segment, b.size, b.stream, b.small,
                        b.used);
    return std::exchange(left_, left) == left;
  }

  void allocate(ir::StorageId s) {
    const auto i = static_cast<std::size_t>(s);
    if (handle_[i] != not_allocated) return;
    handle_[i] = request(p_.storage(s).bytes, s);
    blocks_.storages[i] = allocator_.size(handle_[i]);
  }

  void find_scratch() {
    scratch_begin_.reserve(p_.ops.size() + 1);
    for (const ir::Op& op : p_.ops) {
      scratch_begin_.push_back(scratch_.size());
      if (!m_.workspaces) continue;
      const std::vector<std::int64_t> blocks = ir::scratch_blocks(p_, op, m_.target);
      scratch_.insert(scratch_.end(), blocks.begin(), blocks.end());
    }
    scratch_begin_.push_back(scratch_.size());
  }

  /// Of parameters that no optimizer steps, never cleared.
  void find_kept_gradients() {
    kept_gradient_.resize(p_.storages.size(), false);
    for (const passes::Parameter& parameter : step_.parameters)
      if (!parameter.stepped)
        kept_gradient_[static_cast<std::size_t>(p_.storage_of(parameter.gradient))] = true;
  }

  [[nodiscard]] bool made_in_first_step(ir::StorageId s) const {
    if (m_.target.trainer) return false;
    return p_.storage(s).role == ir::Role::optimizer_state ||
           kept_gradient_[static_cast<std::size_t>(s)];
  }

  /// native_dropout makes its mask before its result (aten/src/ATen/native/cuda/Dropout.cu, v2.11).
  void allocate_outputs(const ir::Op& op) {
    const auto outputs = p_.outputs(op);
    if (op.kind == ir::OpKind::dropout && !m_.target.trainer)
      allocate(p_.storage_of(outputs.back()));
    for (ir::ValueId v : outputs) allocate(p_.storage_of(v));
  }

  /// The parameters in one block, while those that they are copied from are there too.
  void flatten_parameters() {
    if (step_.set_up.empty()) return;
    for (ir::ValueId v : step_.set_up) allocate(p_.storage_of(v));
    std::int64_t bytes = 0;
    for (ir::StorageId s : s_.resident) {
      if (p_.storage(s).role != ir::Role::parameter) continue;
      handle_[static_cast<std::size_t>(s)] = in_flat_parameters;
      blocks_.storages[static_cast<std::size_t>(s)] = p_.storage(s).bytes;
      bytes += p_.storage(s).bytes;
    }
    request(bytes, ir::no_id);
    for (ir::ValueId v : step_.set_up) release(p_.storage_of(v));
  }

  /// FlatParamHandle.init_flat_param_attributes, on the stream that computes: each flat parameter
  /// once, and where it is cast its shard and the whole in the stored dtype.
  void init_flat_parameters() {
    const auto once = [&](std::int64_t bytes) { give_back(request(bytes, ir::no_id), ir::no_id); };
    const auto init = [&](const passes::FlatParameter& flat) {
      const std::int64_t stored = size_of(p_.value(flat.shard).dtype),
                         computed =
                             size_of(p_.value(step_.parameters[flat.parameters[0]].value).dtype);
      if (stored != computed) once(p_.value(flat.shard).shape.numel() * computed);
      once(flat.numel * computed);
      if (stored != computed) once(flat.numel * stored);
    };
    if (step_.flat.empty()) return;
    init(step_.flat.back());
    for (std::size_t unit = 0; unit + 1 < step_.flat.size(); ++unit) init(step_.flat[unit]);
  }

  /// A master copy comes by way of one in the parameters' dtype, and DeepSpeed's
  /// initialize_optimizer_states makes a gradient of zeros for it.
  void make_masters() {
    if (step_.zero3.partitions != ir::no_id)  // whose set-up gives back what it cached
      for (const passes::OptimizedTensor& t : step_.optimized)
        if (on_device(t)) allocate(p_.storage_of(t.parameter));
    if (step_.set_up.empty()) return;
    for (const passes::OptimizedTensor& t : step_.optimized) {
      const ir::StorageId master = p_.storage_of(t.parameter);
      const Handle narrow = request(p_.storage(master).bytes / 2, ir::no_id);
      if (on_device(t)) allocate(master);
      give_back(narrow, ir::no_id);
      if (on_device(t)) give_back(request(p_.storage(master).bytes, ir::no_id), ir::no_id);
    }
    allocator_.reset_peaks();
  }

  /// A master of an optimizer that the device has.
  [[nodiscard]] bool on_device(const passes::OptimizedTensor& t) const {
    return resident_[static_cast<std::size_t>(p_.storage_of(t.parameter))];
  }

  /// Else each product has its workspace as scratch (ir::product_workspace).
  [[nodiscard]] bool keeps_cublas() const {
    return ir::facts_of(m_.target.torch).keeps_cublas_workspaces;
  }

  /// getCurrentCUDABlasHandle (aten/src/ATen/cuda/CublasHandlePool.cpp): a workspace for each
  /// handle and stream, kept from its first use on; a recorded graph's goes with it, and the next
  /// one has its memory (torch/_inductor/cudagraph_trees.py: clear_cublas_manager).
  void use_cublas(std::size_t thread) {
    if (m_.pool) thread = 0;
    if (!m_.workspaces || has_cublas_[thread]) return;
    has_cublas_[thread] = true;
    blocks_.cublas_workspace += allocator_.size(
        request(m_.cublas_workspace / handles_, ir::no_id, m_.pool ? pool_stream : 0));
  }

  /// PowerSGD's callbacks run each on the next of PyTorch's 32 pooled streams
  /// (c10/cuda/CUDAStream.cpp, kStreamsPerPool), three a bucket. After some steps each of them has
  /// a cuBLAS workspace, and blocks for the errors that were made on it, which no other stream
  /// takes.
  void use_pooled_streams() {
    constexpr int pooled = 32, callbacks = 3, first_pooled = 8;
    if (has_pooled_) return;
    has_pooled_ = true;
    for (int i = 0; i < pooled && m_.workspaces && keeps_cublas(); ++i)
      blocks_.cublas_workspace +=
          allocator_.size(request(m_.cublas_workspace / handles_, ir::no_id));
    const std::size_t count = step_.compressed.size();
    // The error that is resident stands for the last stream's.
    for (std::size_t n = 0; n < pooled * count; ++n) {
      const int stream = static_cast<int>((callbacks * n + callbacks - 1) % pooled);
      if (stream == 0) continue;
      const Handle error =
          allocator_.allocate(p_.bytes(step_.compressed[n % count].bucket), first_pooled + stream);
      allocator_.free(error);
    }
  }

  /// cuBLASLt's workspace is its own: 1 MiB (_parseChosenWorkspaceSize,
  /// aten/src/ATen/cuda/CUDABlas.cpp).
  void use_cublaslt(std::size_t thread) {
    if (!m_.workspaces || has_cublaslt_[thread]) return;
    has_cublaslt_[thread] = true;
    blocks_.cublas_workspace += allocator_.size(request(std::int64_t{1} << 20, ir::no_id));
  }

  /// Transformer Engine's products share one workspace (pytorch/cpp_extensions/gemm.py, v2.9,
  /// get_cublas_workspace_size_bytes).
  void use_engine() {
    if (!m_.workspaces || has_engine_) return;
    has_engine_ = true;
    take_engine_workspaces(1);
  }

  /// Products of experts run on four streams, each with a workspace of its own (Transformer Engine
  /// 2.11, pytorch/cpp_extensions/gemm.py, get_cublas_workspace; common/util/multi_stream.cpp).
  void use_grouped_engine() {
    constexpr int streams = 4;
    if (!m_.workspaces || has_grouped_engine_) return;
    has_grouped_engine_ = true;
    take_engine_workspaces(streams);
  }
  void take_engine_workspaces(int count) {
    constexpr std::int64_t hopper = 90, mib = 1 << 20;
    const std::int64_t bytes = m_.target.compute_capability >= hopper ? 32 * mib + 1024 : 4 * mib;
    for (int i = 0; i < count; ++i)
      blocks_.cublas_workspace += allocator_.size(request(bytes, ir::no_id));
  }

  /// Triton 3.6 measures its ways to cast rows when it first meets their width, with 256 MiB that
  /// it clears before each try (runtime/autotuner.py; testing.py, do_bench).
  void tune(const ir::Op& op) {
    constexpr std::int64_t cleared = std::int64_t{256} << 20;
    if (ir::attributes<ir::Float8>(op).transposed) return;  // by a kernel of CUDA
    if (!tuned_.insert(p_.value(p_.input(op, 0)).shape.back()).second) return;
    give_back(request(cleared, ir::no_id), ir::no_id);
  }

  void use_scratch(std::size_t op) {
    blocks_.scratch[op] = 0;
    scratch_handles_.clear();
    for (std::size_t i = scratch_begin_[op]; i < scratch_begin_[op + 1]; ++i) {
      scratch_handles_.push_back(request(scratch_[i], ir::no_id, stream_of_op(op)));
      blocks_.scratch[op] += allocator_.size(scratch_handles_.back());
    }
    for (Handle handle : scratch_handles_) give_back(handle, ir::no_id);
  }

  [[nodiscard]] int stream_of_op(std::size_t op) const {
    return m_.pool && m_.pool->ops[op] ? pool_stream : 0;
  }

  /// Where there is no storage, on stream `other`.
  Handle request(std::int64_t bytes, ir::StorageId s, int other = 0) {
    const int stream = s == ir::no_id ? other : stream_of(s);
    if (result_.refused) return CachingAllocator::failed;
    const Handle handle = allocator_.allocate(bytes, stream);
    if (handle == CachingAllocator::failed) result_.refused = {result_.steps.size(), op_, bytes};
    if (observer_) observer_(allocator_, {s, op_, handle, bytes, stream, false});
    return handle;
  }

  void give_back(Handle handle, ir::StorageId s) {
    if (observer_) observer_(allocator_, {s, op_, handle, 0, 0, true});
    allocator_.free(handle);
  }

  /// FSDP2 (_fsdp_collectives.py, v2.11) allocates all-gather's buffers on its copy-in's stream and
  /// reduce-scatter's output, with what is made of it, on a third; reduce-scatter's input is made
  /// where the gradients are. FSDP1 (_runtime_utils.py, _init_streams) has one for shards that it
  /// casts, one for flat parameters, and one for what it reduces. The views of a flat parameter are
  /// made on the second, so their backward runs there, too: what joins gradients, and the sum of
  /// those that meet in a view. The trainer has all of them on one, where what uses them elsewhere
  /// is waited for.
  void find_streams() {
    stream_.resize(p_.storages.size(), 0);
    if (m_.target.trainer) return;
    const bool flat = !step_.flat.empty();
    const int gathers = flat ? 4 : 1;  // ZeRO 3's __allgather_stream
    for (std::size_t s = 0; s < stream_.size(); ++s) {
      const ir::Storage& storage = p_.storages[s];
      if (storage.module.leaf != ir::Module::fsdp) continue;
      if (resident_[s]) continue;
      stream_[s] = storage.role == ir::Role::gradient        ? 2
                   : storage.role == ir::Role::communication ? 1
                   : storage.role == ir::Role::gathered      ? gathers
                                                             : 0;
    }
    for (ir::ValueId v : step_.zero3.reduced)
      stream_[static_cast<std::size_t>(p_.storage_of(v))] = 2;
    for (const ir::Op& op : p_.ops)
      if (const auto stream = output_stream(op, flat))
        for (ir::ValueId v : p_.outputs(op))
          stream_[static_cast<std::size_t>(p_.storage_of(v))] = *stream;
    for (std::size_t s = 0; m_.pool && s < stream_.size(); ++s)
      if (m_.pool->storages[s]) stream_[s] = pool_stream;
    for (ir::ValueId v : step_.in_line) stream_[static_cast<std::size_t>(p_.storage_of(v))] = 0;
  }
  /// Those of DistributedDataParallel: what is all-reduced in backward and stays.
  void find_buckets() {
    if (m_.target.trainer) return;
    for (const passes::CompressedBucket& kept : step_.compressed)
      buckets_.push_back(p_.storage_of(kept.bucket));
    if (!buckets_.empty()) return;
    for (const ir::Op& op : p_.ops) {
      if (op.kind != ir::OpKind::all_reduce || op.phase == ir::Phase::optimizer) continue;
      const ir::StorageId s = p_.storage_of(p_.input(op, 0));
      if (!resident_[static_cast<std::size_t>(s)]) continue;
      reduces_again_ = std::find(buckets_.begin(), buckets_.end(), s) != buckets_.end();
      if (reduces_again_) return;
      buckets_.push_back(s);
    }
  }

  /// Until the order is known in which gradients come, they are in one (DistributedDataParallel's
  /// _ddp_init_helper: bucket_size_limits = [sys.maxsize]).
  void make_first_bucket() {
    if (buckets_.empty()) return;
    std::int64_t bytes = 0;
    for (ir::StorageId s : buckets_) bytes += p_.storage(s).bytes;
    first_bucket_ = request(bytes, buckets_.front());
  }

  /// Before the forward that follows the first backward that reduces. The old one goes at the next
  /// reduction, or is kept by nothing; where gradients are views of it and are added to, with the
  /// last of them.
  void rebuild_buckets() {
    const bool viewed = reduces_again_ && has_bucket_views();
    const bool kept = viewed || ir::facts_of(m_.target.torch).keeps_what_it_reduced;
    if (!kept) give_back(first_bucket_, buckets_.front());
    for (ir::StorageId s : buckets_) {
      handle_[static_cast<std::size_t>(s)] = not_allocated;
      allocate(s);
    }
    reductions_left_ = viewed ? buckets_.size() : kept ? 1 : 0;
  }

  [[nodiscard]] bool has_bucket_views() const {
    return std::any_of(
        step_.optimized.begin(), step_.optimized.end(), [&](const passes::OptimizedTensor& t) {
          return t.gradient != ir::no_id && std::find(buckets_.begin(), buckets_.end(),
                                                      p_.storage_of(t.gradient)) != buckets_.end();
        });
  }

  [[nodiscard]] int stream_of(ir::StorageId s) const {
    return stream_[static_cast<std::size_t>(s)];
  }

  /// An optimizer makes its states when its first step reads one, after what comes before it. Those
  /// of --optimizer-in-backward, which are made one by one in backward, are taken to come at the
  /// first step's end: so reserved memory is the oracle's.
  [[nodiscard]] bool reads_new_state(const ir::Op& op) const {
    if (op.phase != ir::Phase::optimizer) return false;
    for (ir::ValueId v : p_.inputs(op)) {
      const auto i = static_cast<std::size_t>(p_.storage_of(v));
      if (resident_[i] && handle_[i] == not_allocated) return true;
    }
    return false;
  }

  void make_all_states() {
    std::vector<ir::StorageId> masters;  // every third state, after the kernel's flag
    if (m_.copies_masters)
      for (std::size_t i = 3; i < step_.optimizer_states.size(); i += 3)
        masters.push_back(p_.storage_of(step_.optimizer_states[i]));
    for (ir::StorageId s : s_.resident) {
      allocate(s);
      if (std::find(masters.begin(), masters.end(), s) != masters.end()) copy_to_master(s);
    }
    states_made_ = true;
  }

  /// Transformer Engine's FusedAdam: param.clone().detach().float(), which is copied.
  void copy_to_master(ir::StorageId master) {
    const std::int64_t wide = p_.storage(master).bytes;
    const Handle clone = request(wide / 2, ir::no_id), widened = request(wide, ir::no_id);
    give_back(clone, ir::no_id);
    give_back(widened, ir::no_id);
  }

  void walk() {
    ir::count(ir::Work::walked_ops, p_.ops.size());
    const std::int64_t retries = allocator_.retries(), released = allocator_.released_segments();
    for (std::size_t i = 0; i < p_.ops.size() && !result_.refused; ++i) {
      const ir::Op& op = p_.ops[i];
      op_ = static_cast<ir::OpId>(i);
      if (m_.empties_cache && begins_micro_batch(op)) allocator_.empty_cache();
      if (reduces_again_ && !states_made_ && op_ == step_.micro_begin[1]) rebuild_buckets();
      if (!states_made_ && reads_new_state(op)) make_all_states();
      // Graphs are recorded from the second step on; the first reads what it is given in place.
      const bool in_place = warms_up_ && op.kind == ir::OpKind::clone && stream_of_op(i) != 0 &&
                            stream_of(p_.storage_of(p_.input(op, 0))) == 0;
      if (op.kind == ir::OpKind::accumulate_inplace) keep_as_gradient(op);
      if (!in_place) allocate_outputs(op);
      // PyTorch's autograd engine has a thread of its own, and recomputation runs in it.
      const std::size_t thread = op.phase > ir::Phase::loss ? 1 : 0;
      if (m_.target.engine && ir::of_engine(op)) {
        use_engine();
      } else if (m_.target.engine && op.kind == ir::OpKind::grouped_mm) {
        use_grouped_engine();
      } else if (!m_.target.trainer) {
        if (keeps_cublas() && ir::runs_cublaslt(p_, op)) use_cublaslt(thread);
        if (keeps_cublas() && ir::runs_cublas(op)) use_cublas(thread);
        if (op.kind == ir::OpKind::orthogonalize) use_pooled_streams();
      }
      if (op.kind == ir::OpKind::mx_cast) tune(op);
      if (op.kind == ir::OpKind::all_reduce && reductions_left_ > 0 && --reductions_left_ == 0)
        give_back(first_bucket_, buckets_.front());
      use_scratch(i);
      for (std::int32_t f = s_.free_begin[i]; f < s_.free_begin[i + 1]; ++f)
        release(s_.freed[static_cast<std::size_t>(f)]);
    }
    if (!states_made_) make_all_states();
    if (!result_.refused)
      result_.steps.push_back({allocator_.retries() - retries,
                               allocator_.released_segments() - released,
                               allocator_.peak_allocated()});
  }

  /// A step with all states; of several stages of a rank more, as long as they reserve more: what
  /// one leaves cut into pieces may not serve the next. (Others were compared over two steps.)
  void walk_until_alike() {
    const int most = step_.stages.size() > 1 ? 8 : 1;
    std::int64_t reserved = -1;
    for (int i = 0; i < most && !result_.refused && allocator_.peak_reserved() > reserved; ++i) {
      reserved = allocator_.peak_reserved();
      if (i > 0) release_survivors();
      walk();
    }
  }

  /// The op that runs is a micro-batch's first, after what the loop held of the one before is gone.
  [[nodiscard]] bool begins_micro_batch(const ir::Op& op) const {
    if (op.kind == ir::OpKind::hold) return false;
    const ir::OpId before = op_ - 1;
    const bool after_hold = before >= 0 && p_.op(before).kind == ir::OpKind::hold;
    return std::any_of(step_.micro_begin.begin(), step_.micro_begin.end(), [&](ir::OpId begin) {
      return begin == op_ || (after_hold && begin == before);
    });
  }

  /// The first gradient of those that stay is kept as it is (AccumulateGrad), not added.
  void keep_as_gradient(const ir::Op& op) {
    const auto kept = static_cast<std::size_t>(p_.storage_of(p_.input(op, 0))),
               made = static_cast<std::size_t>(p_.storage_of(p_.input(op, 1)));
    if (!resident_[kept] || handle_[kept] != not_allocated) return;
    handle_[kept] = std::exchange(handle_[made], not_allocated);
    blocks_.storages[kept] = blocks_.storages[made];
  }

  void release(ir::StorageId s) {
    Handle& handle = handle_[static_cast<std::size_t>(s)];
    if (handle == not_allocated) return;
    give_back(handle, s);
    handle = not_allocated;
  }

  /// Gradients are set to None and the held output is dropped before the next forward, but for what
  /// the loop has until that is done.
  void release_survivors() {
    std::vector<Handle> carried;
    for (const passes::Carried& c : step_.carried)
      carried.push_back(
          std::exchange(handle_[static_cast<std::size_t>(p_.storage_of(c.made))], not_allocated));
    for (std::size_t s = 0; s < handle_.size(); ++s)
      if (!resident_[s]) release(static_cast<ir::StorageId>(s));
    for (std::size_t i = 0; i < carried.size(); ++i) {
      const auto before = static_cast<std::size_t>(p_.storage_of(step_.carried[i].before));
      handle_[before] = carried[i];
      blocks_.storages[before] = allocator_.size(carried[i]);
    }
  }

  const ir::Program& p_;
  const passes::StepProgram& step_;
  bool states_made_ = false;
  bool warms_up_ = false;  ///< before CUDA graphs are recorded
  const passes::Schedule& s_;
  const MemoryModel& m_;
  std::int64_t handles_;
  const RequestObserver& observer_;
  ir::OpId op_ = ir::no_id;  ///< that runs
  bool limited_;             ///< by the device's memory
  Left left_;                ///< by the last step
  AllocatorWalk result_;
  std::vector<ir::StorageId> buckets_;
  Handle first_bucket_ = not_allocated;
  bool reduces_again_ = false;       ///< more than one micro-batch of a step does
  std::size_t reductions_left_ = 0;  ///< until the first bucket goes
  CachingAllocator allocator_;
  std::vector<Handle> handle_;
  std::vector<bool> resident_;         ///< by storage
  std::vector<bool> kept_gradient_;    ///< by storage
  std::vector<std::int64_t> scratch_;  ///< of one op after another
  std::vector<std::size_t> scratch_begin_;
  std::vector<Handle> scratch_handles_;
  std::vector<int> stream_;  ///< by storage
  std::array<bool, 2> has_cublas_{}, has_cublaslt_{};
  std::set<std::int64_t> tuned_;
  bool has_engine_ = false, has_grouped_engine_ = false, has_pooled_ = false;
  BlockSizes blocks_;
};

}  // namespace

AllocatorWalk walk_allocator(const passes::StepProgram& step, const passes::Schedule& schedule,
                             const MemoryModel& model, std::int64_t cublas_handles,
                             const AllocatorOptions& options, const RequestObserver& observer) {
  if (!model.round_to_512) {
    AllocatorWalk walk;
    walk.peak_reserved = walk.first_step_peak = walk_memory(step, schedule, model).peak;
    return walk;
  }
  return Steps(step, schedule, model, cublas_handles, options, observer).run();
}

}  // namespace ac_advisor::simulate
