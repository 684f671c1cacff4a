// Whatever the text, a training file is read or refused with its name, as YAML, as TOML and as a
// script, by the tool that its keys tell and by each by name; what is read can be shown.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/training.hpp"

namespace {

using namespace ac_advisor;

void read(const std::string& path, std::string_view tool, const std::string& text) {
  try {
    const intake::Training training =
        intake::read_training({path, std::string(tool), {{"--seq", "128"}}, {}}, text);
    for (const auto& [name, value] : training.options)
      if (!name.starts_with("--")) std::abort();
    static_cast<void>(reports::table(training, {}));
  } catch (const UserError& error) {
    if (std::string_view(error.what()).find("train.") == std::string_view::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read("train.yaml", "", text);
  read("train.toml", "", text);
  read("train.sh", "", text);
  for (const std::string_view tool : {"verl", "ms-swift", "openrlhf", "megatron"})
    read("train.sh", tool, text);
  read("train.sh", "", "swift sft " + text);
  for (const std::string_view tool : intake::tool_names()) read("train.yaml", tool, text);
  return 0;
}
