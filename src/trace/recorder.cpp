#include "trace/recorder.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "trace/saturating.hpp"
#include "trace/timeline.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t max_started = 1024;
constexpr std::size_t max_notes = 64;

std::int64_t thread_id() {
  thread_local const std::int64_t id = ::syscall(SYS_gettid);
  return id;
}

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

bool named_autograd() {
  char name[32] = "";
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && is_autograd_thread(name);
}

}  // namespace

Recorder::Recorder(std::int64_t pid) : pid_(pid), launches_(launches_in_flight) {}

Recorder::Thread* Recorder::this_thread() {
  const std::int64_t id = thread_id();
  if (const auto found = threads_.find(id); found != threads_.end()) return &found->second;
  if (threads_.size() == max_threads) return nullptr;
  Thread& thread = threads_[id];
  thread.autograd = named_autograd();
  return &thread;
}

Recorder::Place Recorder::place(const Thread* thread) {
  if (thread != nullptr && !thread->stack.empty())
    return {thread->stack.back().node, &Attribution::own_range};
  Place place;
  if (const auto main = threads_.find(main_thread_);
      main != threads_.end() && !main->second.stack.empty())
    place = {main->second.stack.back().node, &Attribution::other_thread};
  else if (!started_.empty())
    place = {started_.rbegin()->second.node, &Attribution::other_thread};
  if (thread == nullptr || !thread->autograd) return place;
  const NodeId backward = ranges_.autograd_thread(place.node);
  return backward == place.node ? place : Place{backward, &Attribution::thread_name};
}

void Recorder::left(const Open& open) {
  // A program that never launched (on CPUs, say) has steps all the same.
  const bool idle = launch_count_ > 0 && launch_count_ == open.launches_before;
  if (idle && ranges_.is_step(open.node))
    ranges_.not_a_step(open.node);
  else
    ranges_.left(open.node, now_ns() - open.since);
}

int Recorder::push(std::string_view name) {
  const std::lock_guard lock(mutex_);
  Thread* const thread = this_thread();
  if (thread == nullptr) return 0;
  const std::size_t depth = thread->stack.size() + thread->too_deep;
  if (thread->stack.size() == max_depth) {
    ++thread->too_deep;
    return static_cast<int>(depth);
  }
  // The process's first thread, or else the first that opens a range.
  if (main_thread_ == 0 || thread_id() == pid_) main_thread_ = thread_id();
  const NodeId node = ranges_.enter(place(thread).node, name);
  thread->stack.push_back({node, now_ns(), launch_count_});
  return static_cast<int>(depth);
}

int Recorder::pop() {
  const std::lock_guard lock(mutex_);
  Thread* const thread = this_thread();
  if (thread == nullptr) return 0;
  if (thread->too_deep > 0) {
    --thread->too_deep;
  } else {
    if (thread->stack.empty()) return -1;
    const Open open = thread->stack.back();
    thread->stack.pop_back();
    left(open);
  }
  return static_cast<int>(thread->stack.size() + thread->too_deep);
}

std::uint64_t Recorder::start(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (started_.size() == max_started) return 0;
  const NodeId node = ranges_.enter(place(this_thread()).node, name);
  started_.emplace(next_started_, Open{node, now_ns(), launch_count_});
  return next_started_++;
}

void Recorder::end(std::uint64_t range) {
  const std::lock_guard lock(mutex_);
  const auto found = started_.find(range);
  if (found == started_.end()) return;
  left(found->second);
  started_.erase(found);
}

void Recorder::api_call(std::uint32_t correlation, bool launches) {
  const std::lock_guard lock(mutex_);
  const Place where = place(this_thread());
  launches_[correlation % launches_in_flight] = {correlation, where};
  if (!launches) return;
  ++launch_count_;
  collector_.launch(where.node);
}

void Recorder::work(const DeviceWork& item, std::uint32_t correlation) {
  const std::lock_guard lock(mutex_);
  const Launch& launch = launches_[correlation % launches_in_flight];
  const Place where = launch.correlation == correlation ? launch.place : Place{};
  if (item.kind == DeviceWork::Kind::kernel) {
    ++kernel_count_;
    ++(attribution_.*where.by);
  }
  collector_.work(item, where.node);
}

void Recorder::allocated(std::int64_t address, std::int64_t bytes, std::int64_t device) {
  const std::lock_guard lock(mutex_);
  if (live_.size() == max_allocations) {
    lost_allocations_ = true;
    return;
  }
  if (!live_.emplace(address, std::pair{bytes, device}).second) return;
  std::int64_t& total = live_bytes_[device];
  add_to(total, bytes);
  peak_bytes_ = std::max(peak_bytes_, total);
}

void Recorder::freed(std::int64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  live_bytes_[found->second.second] -= found->second.first;
  live_.erase(found);
}

void Recorder::device(const Device& device) {
  const std::lock_guard lock(mutex_);
  const auto same = std::find_if(devices_.begin(), devices_.end(),
                                 [&](const Device& d) { return d.id == device.id; });
  if (same == devices_.end()) devices_.push_back(device);
}

void Recorder::dropped(std::int64_t records) {
  const std::lock_guard lock(mutex_);
  add_to(dropped_, records);
}

void Recorder::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const bool known = std::find(notes_.begin(), notes_.end(), text) != notes_.end();
  if (!known && notes_.size() < max_notes) notes_.push_back(text);
}

std::int64_t Recorder::kernels() {
  const std::lock_guard lock(mutex_);
  return kernel_count_;
}

Trace Recorder::report() {
  const std::lock_guard lock(mutex_);
  Trace trace;
  trace.source = "cupti";
  trace.pid = pid_;
  trace.devices = devices_;
  trace.attribution = attribution_;
  trace.dropped_records = dropped_;
  trace.notes = notes_;
  collector_.report(trace);
  if (peak_bytes_ > 0 && !lost_allocations_)
    trace.memory.process = peak_bytes_;
  else
    trace.notes.emplace_back(lost_allocations_
                                 ? "the process's device memory: too many allocations at a time"
                                 : "the process's device memory: no allocation was recorded");
  trace.notes.emplace_back(
      "memory of PyTorch's caching allocator: not visible from outside; torch.profiler with "
      "profile_memory=True tells it");
  trace.notes.emplace_back(
      "DRAM traffic: not measured; nsys profile --gpu-metrics-devices=all does");
  const bool explained = std::any_of(notes_.begin(), notes_.end(), [](const std::string& note) {
    return note.find("not recorded") != std::string::npos;
  });
  if (launch_count_ > 0 && kernel_count_ == 0 && !explained)
    trace.notes.emplace_back(
        "the program launched kernels, but CUPTI delivered no records: another CUPTI client in "
        "the process (torch.profiler?) took them");
  return trace;
}

}  // namespace ac_advisor::trace
