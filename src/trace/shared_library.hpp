#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace ac_advisor::trace {

/// A library that may not be on this machine: the program does not link it. Never unloaded: the
/// driver's libraries leave behind what they allocated.
class SharedLibrary {
 public:
  explicit SharedLibrary(const std::string& name)
      : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ == nullptr)
      if (const char* why = dlerror()) error_ = why;
  }
  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& error() const { return error_; }
  /// nullptr where the library lacks it.
  template <typename Function>
  [[nodiscard]] Function* function(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_.get(), name));
  }

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle_;
  std::string error_;
};

}  // namespace ac_advisor::trace
