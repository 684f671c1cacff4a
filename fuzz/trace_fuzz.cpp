// Whatever the bytes, packed or not, a trace is read or refused by UserError; what is read can be
// written, read again, summarised and diagnosed, and so can its summary and its diagnosis.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/trace_summary.hpp"
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
    const std::string summary = reports::json(trace::summary_of(file));
    static_cast<void>(reports::summary_from_json(summary, "again"));
    static_cast<void>(reports::table(trace::summary_of(file), {}));
    const std::string diagnosis = reports::json(trace::diagnose(file, file));
    static_cast<void>(reports::diagnosis_from_json(diagnosis, "again"));
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
