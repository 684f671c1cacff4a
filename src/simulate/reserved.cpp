#include "ac_advisor/simulate/reserved.hpp"

#include <vector>

#include "ac_advisor/simulate/caching_allocator.hpp"

namespace ac_advisor::simulate {
namespace {

using Handle = CachingAllocator::Handle;
constexpr Handle not_allocated = -2;

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
    for (std::int64_t i = 0; i < cublas_handles && m_.workspaces; ++i)
      static_cast<void>(request(m_.cublas_workspace / cublas_handles, ir::no_id));
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
};

}  // namespace

std::int64_t peak_reserved(const passes::StepProgram& step, const passes::Schedule& schedule,
                           const MemoryModel& model, std::int64_t cublas_handles,
                           bool expandable_segments, const RequestObserver& observer) {
  if (!model.round_to_512) return walk_memory(step, schedule, model).peak;
  return TwoSteps(step, schedule, model, expandable_segments, observer).run(cublas_handles);
}

}  // namespace ac_advisor::simulate
