// Whatever the bytes, a trace is read or refused by UserError; what is read can be written, read
// again, and diagnosed.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/read.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ac_advisor;
  const std::string bytes(data, data + size);
  try {
    const trace::TraceFile file = trace::read_trace_bytes(bytes, "fuzz");
    const std::string text = trace::to_json(file);
    if (trace::read_trace_bytes(text, "again").processes.size() != file.processes.size())
      __builtin_trap();
    static_cast<void>(trace::diagnose(file, file));
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
