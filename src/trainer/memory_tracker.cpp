#include "trainer/memory_tracker.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace ac_advisor::trainer {
namespace {

thread_local MemoryTracker* current_tracker = nullptr;

using Block = MemoryTracker::Block;

void release(void* data) {
  if (data == nullptr) return;
  auto* block = static_cast<Block*>(data) - 1;
  MemoryTracker::remove(block);
  std::free(block->memory);
}

/// A step asks for what the last one gave back, but malloc maps large blocks from the system and
/// unmaps them, so that each is faulted in page by page and zeroed, every time. Here all come from
/// one heap that is never trimmed. (mallopt(3); the threads of local ranks share the heap.)
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_ARENA_MAX, 1);
}

/// The data pointer is its own context, so that LibTorch's raw_allocate and raw_deallocate work.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    constexpr std::size_t line = sizeof(Block);
    // Not aligned_alloc: glibc's takes a larger block and cuts it, so that a block that was freed
    // is too small for the next request of its own size.
    std::size_t space = bytes + 2 * line;
    void* const memory = std::malloc(space);
    MemoryTracker* tracker = MemoryTracker::current();
    if (memory == nullptr)
      throw OutOfMemory{static_cast<std::int64_t>(bytes), tracker != nullptr ? tracker->live() : 0,
                        0};
    void* aligned = memory;
    std::align(line, line + bytes, aligned, space);
    auto* block = new (aligned) Block;
    block->memory = memory;
    block->bytes = static_cast<std::int64_t>(bytes);
    block->tracker = tracker;
    try {
      if (tracker != nullptr) tracker->add(block);
    } catch (...) {
      std::free(memory);
      throw;
    }
    void* data = block + 1;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

void MemoryTracker::install() {
  static CountingAllocator allocator;
  keep_freed_memory();
  c10::SetCPUAllocator(&allocator, 100);
}

MemoryTracker* MemoryTracker::current() {
  const bool counts = current_tracker != nullptr && !current_tracker->counts_by_device();
  return counts ? current_tracker : nullptr;
}

MemoryTracker::Scope::Scope(MemoryTracker* tracker) : before_(current_tracker) {
  current_tracker = tracker;
}
MemoryTracker::Scope::~Scope() { current_tracker = before_; }

MemoryTracker::~MemoryTracker() {
  const std::scoped_lock lock(mutex_);
  for (Block* block = first_; block != nullptr; block = block->next) block->tracker = nullptr;
}

void MemoryTracker::note() {
  const auto p = static_cast<std::size_t>(phase_);
  if (live_ > peak_.bytes) peak_ = {live_, op_};
  if (declared_ > declared_peak_.bytes) declared_peak_ = {declared_, op_};
  phase_peak_[p] = std::max(phase_peak_[p], live_);
  declared_phase_peak_[p] = std::max(declared_phase_peak_[p], declared_);
}

void MemoryTracker::add(Block* block) {
  link(block);
  if (seen_ && op_ == watched_ && current_tracker == this) seen_();
}

void MemoryTracker::link(Block* block) {
  const std::scoped_lock lock(mutex_);
  if (limit_ > 0 && live_ + block->bytes > limit_) throw OutOfMemory{block->bytes, live_, limit_};
  block->storage = storage_;
  block->next = first_;
  if (first_ != nullptr) first_->previous = block;
  first_ = block;
  live_ += block->bytes;
  if (block->storage != ir::no_id) declared_ += block->bytes;
  ++allocations_;
  note();
}

void MemoryTracker::remove(Block* block) {
  const std::scoped_lock lock(mutex_);
  MemoryTracker* tracker = block->tracker;
  if (tracker == nullptr) return;
  if (block->previous != nullptr) block->previous->next = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (tracker->first_ == block) tracker->first_ = block->next;
  tracker->live_ -= block->bytes;
  if (block->storage != ir::no_id) tracker->declared_ -= block->bytes;
}

void MemoryTracker::adopt(void* data, ir::StorageId storage) {
  const std::scoped_lock lock(mutex_);
  auto* block = static_cast<Block*>(data) - 1;
  if (block->storage == ir::no_id) declared_ += block->bytes;
  block->storage = storage;
  note();
}

void MemoryTracker::hold(ir::StorageId storage, std::int64_t bytes) {
  if (!counts_by_device()) return;
  const std::int64_t unit = device_.granularity, rounded = (bytes + unit - 1) / unit * unit;
  if (held_.emplace(storage, rounded).second) declared_ += rounded;
}

void MemoryTracker::let_go(ir::StorageId storage) {
  const auto found = held_.find(storage);
  if (found == held_.end()) return;
  declared_ -= found->second;
  held_.erase(found);
}

void MemoryTracker::set_sampling(bool on) {
  sampling_ = on && counts_by_device();
  if (sampling_) static_cast<void>(device_.take_peak());
}

void MemoryTracker::end_op() {
  if (!sampling_) return;
  live_ = device_.take_peak();
  note();
  if (seen_ && op_ == watched_) seen_();
}

void MemoryTracker::end_step() {
  if (!counts_by_device() || sampling_) return;
  live_ = device_.take_peak();
  note();
}

std::int64_t MemoryTracker::live() const {
  return counts_by_device() ? device_.allocated() : live_;
}

void MemoryTracker::begin_op(ir::OpId op, ir::Phase phase) {
  op_ = op;
  if (phase == phase_) return;
  phase_ = phase;
  const std::scoped_lock lock(mutex_);
  if (counts_by_device()) {
    if (!sampling_) return;
    static_cast<void>(device_.take_peak());  // what the phase before has freed is none of this one
    live_ = device_.allocated();
  }
  note();
}

void MemoryTracker::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  if (counts_by_device()) {
    static_cast<void>(device_.take_peak());
    live_ = device_.allocated();
  }
  op_ = ir::no_id;
  phase_ = ir::Phase::forward;
  peak_ = declared_peak_ = {};
  phase_peak_.fill(0);
  declared_phase_peak_.fill(0);
  allocations_ = 0;
  note();
}

void MemoryTracker::each_live(const std::function<void(std::int64_t bytes, ir::StorageId)>& visit) {
  const std::scoped_lock lock(mutex_);
  for (Block* block = first_; block != nullptr; block = block->next)
    visit(block->bytes, block->storage);
  for (const auto& [storage, bytes] : held_) visit(bytes, storage);
  if (counts_by_device()) visit(live_ - declared_, ir::no_id);
}

}  // namespace ac_advisor::trainer
