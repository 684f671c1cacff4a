#pragma once

/// NVTX ranges: one a step, a phase and a module path, for whichever tool listens. Without one, or
/// in a build without NVTX's header, they cost nothing.
namespace ac_advisor::trainer::nvtx {

[[nodiscard]] bool enabled();
void push(const char* name);
void pop();

class Range {
 public:
  Range() = default;
  explicit Range(const char* name) { replace(name); }
  ~Range() { close(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  void replace(const char* name) {
    close();
    push(name);
    open_ = true;
  }
  void close() {
    if (open_) pop();
    open_ = false;
  }

 private:
  bool open_ = false;
};

}  // namespace ac_advisor::trainer::nvtx
