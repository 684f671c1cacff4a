#include "injection/library/cupti_session.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "injection/library/activity.hpp"
#include "injection/library/cupti_api.hpp"
#include "injection/library/process.hpp"
#include "trace/timeline.hpp"

namespace ac_advisor::injection {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{2} << 20;
constexpr std::uint32_t flush_period_ms = 1000;
constexpr std::chrono::seconds write_period{20};
constexpr CUpti_CallbackId most_callbacks = 4096;

/// What a function of the CUDA API does, by its number.
enum class Call : std::uint8_t { other, moves, launches };

struct Session {
  CuptiApi api;
  CUpti_SubscriberHandle subscriber = nullptr;
  std::vector<Call> runtime, driver;
  std::mutex mutex;  ///< one buffer at a time
  std::chrono::steady_clock::time_point written = std::chrono::steady_clock::now();
  std::atomic<bool> running = false;
};

/// Never destroyed: CUPTI's threads call in until the process is gone.
Session& session() {
  static auto& only = *new Session;
  return only;
}

/// A call of the runtime makes one of the driver, which is not a launch of its own.
thread_local bool inside_runtime_call = false;

Call call_of(std::string_view name) {
  if (trace::is_launch(name)) return Call::launches;
  const bool copies =
      name.find("emcpy") != std::string_view::npos || name.find("emset") != std::string_view::npos;
  return copies && name.find("Graph") == std::string_view::npos ? Call::moves : Call::other;
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  guarded(0, [&] {
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
    const std::vector<Call>& calls = runtime ? session().runtime : session().driver;
    if (call.callbackSite == CUPTI_API_EXIT) {
      if (runtime) inside_runtime_call = false;
      return 0;
    }
    const bool launches = id < calls.size() && calls[id] == Call::launches;
    recorder().api_call(call.correlationId, launches && !inside_runtime_call);
    if (runtime) inside_runtime_call = true;
    return 0;
  });
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most = 0;
}

void take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid) {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && s.api.get_next_record(buffer, valid, &record) == CUPTI_SUCCESS)
    take(*record, recorder());
  std::size_t dropped = 0;
  if (s.api.get_dropped(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0)
    recorder().dropped(static_cast<std::int64_t>(dropped));
  // A program may end by _exit or a signal: then this is what is left of its trace.
  const auto now = std::chrono::steady_clock::now();
  if (now - s.written < write_period) return;
  s.written = now;
  write_trace(false);
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                               std::size_t, std::size_t valid) {
  guarded(0, [&] { return take_buffer(context, stream, buffer, valid), 0; });
  std::free(buffer);
}

std::string reason(const CuptiApi& api, CUptiResult result) {
  const char* text = nullptr;
  api.get_result_string(result, &text);
  return text == nullptr ? "CUPTI error " + std::to_string(result) : text;
}

/// The numbers of the functions that launch, copy or set, asked by name: newer versions have more.
std::vector<Call> hear_calls(Session& s, CUpti_CallbackDomain domain) {
  std::vector<Call> calls;
  for (CUpti_CallbackId id = 1; id < most_callbacks; ++id) {
    const char* name = nullptr;
    if (s.api.get_callback_name(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
    const Call call = call_of(name);
    if (call == Call::other) continue;
    calls.resize(id + 1, Call::other);
    calls[id] = call;
    s.api.enable_callback(1, s.subscriber, domain, id);
  }
  return calls;
}

void enable_kinds(Session& s) {
  struct Kind {
    CUpti_ActivityKind kind;
    const char* what;
  };
  static constexpr Kind kinds[] = {
      {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"},
      {CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
      {CUPTI_ACTIVITY_KIND_MEMSET, "memsets"},
      {CUPTI_ACTIVITY_KIND_MEMORY2, "allocations"},
      {CUPTI_ACTIVITY_KIND_DEVICE, "the device's name"},
  };
  for (const Kind& kind : kinds)
    if (const CUptiResult result = s.api.enable(kind.kind); result != CUPTI_SUCCESS)
      recorder().note(std::string(kind.what) + ": not recorded; " + reason(s.api, result));
}

void start() {
  Session& s = session();
  s.api = load_cupti();
  if (!s.api.error.empty()) {
    recorder().note("device work: not recorded; no CUPTI that works: " + s.api.error);
    return;
  }
  recorder().note("CUPTI: " + s.api.path + ", API version " + std::to_string(s.api.version));
  // First of all, so that another tool is noticed, and notices.
  if (const CUptiResult result = s.api.subscribe(&s.subscriber, on_call, nullptr);
      result != CUPTI_SUCCESS) {
    recorder().note("device work: not recorded; " + reason(s.api, result) +
                    (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                         ? ": another tool (torch.profiler, Nsight, cuda-gdb) has CUPTI; run "
                           "without it"
                         : ""));
    return;
  }
  s.runtime = hear_calls(s, CUPTI_CB_DOMAIN_RUNTIME_API);
  s.driver = hear_calls(s, CUPTI_CB_DOMAIN_DRIVER_API);
  if (const CUptiResult result = s.api.register_callbacks(buffer_requested, buffer_completed);
      result != CUPTI_SUCCESS) {
    recorder().note("device work: not recorded; " + reason(s.api, result));
    return;
  }
  enable_kinds(s);
  if (s.api.flush_period != nullptr) s.api.flush_period(flush_period_ms);
  s.running = true;
}

}  // namespace

void start_cupti() {
  static std::once_flag once;
  std::call_once(once, start);
}

void flush_cupti() {
  if (session().running) session().api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

}  // namespace ac_advisor::injection
