#include "ac_advisor/simulate/reserved.hpp"

#include <array>
#include <vector>

#include "ac_advisor/simulate/caching_allocator.hpp"

namespace ac_advisor::simulate {
namespace {

using Handle = CachingAllocator::Handle;
constexpr Handle not_allocated = -2;

/// What cuBLAS runs through PyTorch; grouped products are CUTLASS's, LLM.int8()'s are bitsandbytes'
/// own, without a workspace.
bool runs_cublas(const ir::Op& op) {
  if (op.kind == ir::OpKind::mm_quantized)
    return ir::attributes<ir::QuantizedProduct>(op).inner > 0;
  return op.kind == ir::OpKind::mm || op.kind == ir::OpKind::addmm || op.kind == ir::OpKind::bmm ||
         op.kind == ir::OpKind::baddbmm;
}

class TwoSteps {
 public:
  TwoSteps(const passes::StepProgram& step, const passes::Schedule& schedule,
           const MemoryModel& model, bool expandable_segments, const RequestObserver& observer)
      : p_(step.program),
        s_(schedule),
        m_(model),
        observer_(observer),
        allocator_(AllocatorOptions{expandable_segments, 0}),
        handle_(p_.storages.size(), not_allocated) {
    scratch_.reserve(p_.ops.size());
    for (const ir::Op& op : p_.ops)
      scratch_.push_back(m_.workspaces ? ir::workspace_bytes(p_, op, m_.target) : 0);
  }

  std::int64_t run(std::int64_t cublas_handles) {
    for (ir::StorageId s : s_.resident)
      if (m_.target.trainer || p_.storage(s).role != ir::Role::optimizer_state) allocate(s);
    handles_ = cublas_handles;
    if (m_.target.trainer) use_cublas(0);
    walk();
    release_survivors();
    walk();
    if (observer_) observer_(allocator_, {});
    return allocator_.peak_reserved();
  }

 private:
  void allocate(ir::StorageId s) {
    const auto i = static_cast<std::size_t>(s);
    if (handle_[i] == not_allocated) handle_[i] = request(p_.storage(s).bytes, s);
  }

  /// getCurrentCUDABlasHandle (aten/src/ATen/cuda/CublasHandlePool.cpp): a workspace for each
  /// handle and stream, from its first use on. The autograd engine has a thread of its own, and
  /// recomputation runs in it.
  void use_cublas(std::size_t thread) {
    if (!m_.workspaces || has_cublas_[thread]) return;
    has_cublas_[thread] = true;
    static_cast<void>(request(m_.cublas_workspace / handles_, ir::no_id));
  }

  Handle request(std::int64_t bytes, ir::StorageId s) {
    const int stream = s == ir::no_id ? 0 : stream_of(s);
    const Handle handle = allocator_.allocate(bytes, stream);
    if (observer_) observer_(allocator_, {s, op_, handle, bytes, stream, false});
    return handle;
  }

  void give_back(Handle handle, ir::StorageId s) {
    if (observer_) observer_(allocator_, {s, op_, handle, 0, 0, true});
    allocator_.free(handle);
  }

  /// FSDP2 allocates all-gather and reduce-scatter outputs on streams of their own; the trainer all
  /// of them on one, where what uses them elsewhere is waited for.
  [[nodiscard]] int stream_of(ir::StorageId s) const {
    if (m_.target.trainer) return 0;
    const ir::Storage& storage = p_.storage(s);
    if (storage.module.leaf != ir::Module::fsdp) return 0;
    return storage.role == ir::Role::gradient ? 2 : storage.role == ir::Role::communication ? 1 : 0;
  }

  void walk() {
    bool optimizer = false;
    for (std::size_t i = 0; i < p_.ops.size(); ++i) {
      const ir::Op& op = p_.ops[i];
      op_ = static_cast<ir::OpId>(i);
      if (!optimizer && op.phase == ir::Phase::optimizer) {
        optimizer = true;
        for (ir::StorageId s : s_.resident) allocate(s);
      }
      for (ir::ValueId v : p_.outputs(op)) allocate(p_.storage_of(v));
      if (!m_.target.trainer && runs_cublas(op)) use_cublas(op.phase > ir::Phase::loss ? 1 : 0);
      if (scratch_[i] > 0) give_back(request(scratch_[i], ir::no_id), ir::no_id);
      for (std::int32_t f = s_.free_begin[i]; f < s_.free_begin[i + 1]; ++f)
        release(s_.freed[static_cast<std::size_t>(f)]);
    }
  }

  void release(ir::StorageId s) {
    Handle& handle = handle_[static_cast<std::size_t>(s)];
    if (handle == not_allocated) return;
    give_back(handle, s);
    handle = not_allocated;
  }

  /// Gradients are set to None and the held output is dropped before the next forward.
  void release_survivors() {
    std::vector<bool> resident(handle_.size(), false);
    for (ir::StorageId s : s_.resident) resident[static_cast<std::size_t>(s)] = true;
    for (std::size_t s = 0; s < handle_.size(); ++s)
      if (!resident[s]) release(static_cast<ir::StorageId>(s));
  }

  const ir::Program& p_;
  const passes::Schedule& s_;
  const MemoryModel& m_;
  const RequestObserver& observer_;
  ir::OpId op_ = ir::no_id;  ///< that runs
  CachingAllocator allocator_;
  std::vector<Handle> handle_;
  std::vector<std::int64_t> scratch_;
  std::int64_t handles_ = 1;
  std::array<bool, 2> has_cublas_{};
};

}  // namespace

std::int64_t peak_reserved(const passes::StepProgram& step, const passes::Schedule& schedule,
                           const MemoryModel& model, std::int64_t cublas_handles,
                           bool expandable_segments, const RequestObserver& observer) {
  if (!model.round_to_512) return walk_memory(step, schedule, model).peak;
  return TwoSteps(step, schedule, model, expandable_segments, observer).run(cublas_handles);
}

}  // namespace ac_advisor::simulate
