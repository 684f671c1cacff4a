// Whatever the bytes, an imported graph is read or refused by UserError; what is read can be
// planned, with its blocks checkpointed or not, and at another size if it scales. What is scanned,
// reading by names gives, too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "graph/scan_graph.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ac_advisor;
  try {
    const std::string text(data, data + size);
    if (graph::Graph scanned; graph::scan_graph(text, scanned))
      if (!(scanned == graph::read_by_names(text, "fuzz.json"))) __builtin_trap();
  } catch (const UserError&) {
    __builtin_trap();  // scanned, though it has something wrong
  }
  try {
    const model::ModelSpec spec =
        model::parse_config(std::string(data, data + size), "fuzz.json", "fuzz");
    if (spec.graph == nullptr) return 0;  // config_fuzz has these
    const auto plan = [&](const OptionList& options) {
      const StepConfig config = advise::resolve(spec, options).config;
      if (advise::plan(spec, config, false).memory.peak_allocated < 0) __builtin_trap();
    };
    for (const char* mode : {"none", "full"}) plan({{"--ac", mode}});
    for (const char* seq : {"8", "4096"}) plan({{"--batch", "3"}, {"--seq", seq}});
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
