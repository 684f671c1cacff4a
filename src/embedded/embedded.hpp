#pragma once

#include <span>
#include <string_view>

/// The data files of this project, compiled in: the program needs no folder beside it.
namespace ac_advisor::embedded {

struct File {
  std::string_view path;  ///< "devices/h100-80gb.json", "sample_models/llama-3.2-1b/config.json"
  std::string_view text;
};

/// All files in the byte order of their paths. Which files: cmake/Embed.cmake.
std::span<const File> files();

}  // namespace ac_advisor::embedded
