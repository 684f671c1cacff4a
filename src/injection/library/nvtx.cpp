// NVTX ranges without CUPTI: CUPTI would make an activity record of each push and pop, to be
// matched with the launches by thread and time afterwards.
#include "injection/library/nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>
#include <unordered_set>

#include "injection/library/process.hpp"

namespace ac_advisor::injection {
namespace {

/// What this tool hands out as a domain. NCCL's ranges are one a collective, inside the program's.
struct Domain {
  bool ignored = false;
};
Domain heard, ignored{true};

Domain* domain_named(const std::string& name) { return name == "NCCL" ? &ignored : &heard; }
bool is_ignored(nvtxDomainHandle_t domain) {
  return static_cast<const void*>(domain) == static_cast<const void*>(&ignored);
}

std::string narrow(const wchar_t* text) {
  std::string out;
  for (; text != nullptr && *text != 0; ++text)
    out += *text > 0 && *text < 128 ? static_cast<char>(*text) : '?';
  return out;
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

/// Strings that the program registered; their addresses are the handles, and stay.
const std::string* registered(const std::string& text) {
  static std::mutex mutex;
  static auto& strings = *new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return &*strings.insert(text).first;
}

std::string message_of(const nvtxEventAttributes_t* event) {
  if (event == nullptr) return "";
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return text_of(event->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return narrow(event->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
      return event->message.registered == nullptr
                 ? ""
                 : *reinterpret_cast<const std::string*>(event->message.registered);
    default:
      return "";
  }
}

int push(const std::string& name) {
  return recorder().push(name.empty() ? "[nameless range]" : name);
}

int NVTX_API push_ascii(const char* text) {
  return guarded(0, [&] { return push(text_of(text)); });
}
int NVTX_API push_wide(const wchar_t* text) {
  return guarded(0, [&] { return push(narrow(text)); });
}
int NVTX_API push_event(const nvtxEventAttributes_t* event) {
  return guarded(0, [&] { return push(message_of(event)); });
}
int NVTX_API pop() {
  return guarded(0, [] { return recorder().pop(); });
}
nvtxRangeId_t NVTX_API start_ascii(const char* text) {
  return guarded(nvtxRangeId_t{0}, [&] { return recorder().start(text_of(text)); });
}
nvtxRangeId_t NVTX_API start_wide(const wchar_t* text) {
  return guarded(nvtxRangeId_t{0}, [&] { return recorder().start(narrow(text)); });
}
nvtxRangeId_t NVTX_API start_event(const nvtxEventAttributes_t* event) {
  return guarded(nvtxRangeId_t{0}, [&] { return recorder().start(message_of(event)); });
}
void NVTX_API end(nvtxRangeId_t range) {
  guarded(0, [&] { return recorder().end(range), 0; });
}
int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return is_ignored(domain) ? 0 : push_event(event);
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return is_ignored(domain) ? 0 : pop(); }
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return is_ignored(domain) ? 0 : start_event(event);
}
void NVTX_API domain_end(nvtxDomainHandle_t, nvtxRangeId_t range) { end(range); }
nvtxStringHandle_t NVTX_API register_ascii(nvtxDomainHandle_t, const char* text) {
  return guarded(nvtxStringHandle_t{nullptr}, [&] {
    return reinterpret_cast<nvtxStringHandle_t>(
        const_cast<std::string*>(registered(text_of(text))));
  });
}
nvtxStringHandle_t NVTX_API register_wide(nvtxDomainHandle_t, const wchar_t* text) {
  return guarded(nvtxStringHandle_t{nullptr}, [&] {
    return reinterpret_cast<nvtxStringHandle_t>(const_cast<std::string*>(registered(narrow(text))));
  });
}
nvtxDomainHandle_t NVTX_API create_ascii(const char* name) {
  return guarded(nvtxDomainHandle_t{nullptr},
                 [&] { return reinterpret_cast<nvtxDomainHandle_t>(domain_named(text_of(name))); });
}
nvtxDomainHandle_t NVTX_API create_wide(const wchar_t* name) {
  return guarded(nvtxDomainHandle_t{nullptr},
                 [&] { return reinterpret_cast<nvtxDomainHandle_t>(domain_named(narrow(name))); });
}

struct Hook {
  NvtxCallbackModule module;
  unsigned index;
  NvtxFunctionPointer function;
};

template <typename Function>
NvtxFunctionPointer pointer(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

bool attach_nvtx(const void* (*get_export_table)(std::uint32_t)) {
  const Hook hooks[] = {
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushA, pointer(push_ascii)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushW, pointer(push_wide)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePushEx, pointer(push_event)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangePop, pointer(pop)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangeStartA, pointer(start_ascii)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangeStartW, pointer(start_wide)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangeStartEx, pointer(start_event)},
      {NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_RangeEnd, pointer(end)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, pointer(domain_push)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, pointer(domain_pop)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangeStartEx, pointer(domain_start)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangeEnd, pointer(domain_end)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringA, pointer(register_ascii)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringW, pointer(register_wide)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, pointer(create_ascii)},
      {NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateW, pointer(create_wide)},
  };
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks) ||
      callbacks->GetModuleFunctionTable == nullptr)
    return false;
  for (const Hook& hook : hooks) {
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    // An older NVTX lacks the later modules and entries.
    if (callbacks->GetModuleFunctionTable(hook.module, &table, &size) != 0 && table != nullptr &&
        hook.index < size && table[hook.index] != nullptr)
      *table[hook.index] = hook.function;
  }
  return true;
}

}  // namespace ac_advisor::injection
