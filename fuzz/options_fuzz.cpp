// Lines of "--option value" become an OptionList; a UserError is an answer, anything else a bug.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ac_advisor::OptionList options;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t space = line.find(' ');
    const bool has_value = space != std::string_view::npos;
    options.emplace_back(line.substr(0, space), has_value ? line.substr(space + 1) : "");
  }
  try {
    const ac_advisor::StepConfig config = ac_advisor::resolve_options(options);
    // What is accepted is printed as what is accepted.
    const ac_advisor::StepConfig again =
        ac_advisor::resolve_options({{"--ac", ac_advisor::ac_option(config)},
                                     {"--loss", ac_advisor::loss_option(config)},
                                     {"--world", std::to_string(config.layout.world)},
                                     {"--shard", ac_advisor::shard_option(config)}});
    if (again.memory.ac != config.memory.ac || again.memory.ac_arg != config.memory.ac_arg ||
        again.memory.loss != config.memory.loss ||
        again.memory.chunk_tokens != config.memory.chunk_tokens ||
        again.layout.shard != config.layout.shard ||
        again.layout.hsdp_shards != config.layout.hsdp_shards)
      std::abort();
  } catch (const ac_advisor::UserError&) {
  }
  return 0;
}
