#include "ac_advisor/trace/injection.hpp"

#include <cstdlib>
#include <filesystem>

#include "injection/cupti/paths.hpp"

namespace ac_advisor::trace {
namespace {

/// From CUDA 13 on the version is CUDA's with a patch number; before, it was a running number.
std::string version_text(int version) {
  if (version < 10000) return "CUPTI, API version " + std::to_string(version);
  return "CUPTI " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

}  // namespace

Injection injection() {
  namespace fs = std::filesystem;
  Injection found;
  found.built_with = version_text(cupti_version);
  if (const char* wanted = std::getenv(cupti_variable); wanted != nullptr && *wanted != '\0')
    found.cupti_libraries.emplace_back(wanted);
  for (const char* library : cupti_libraries) found.cupti_libraries.emplace_back(library);

  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& folder : {program, program / install_folder})
    if (fs::exists(folder / library_name, none)) {
      found.library = fs::weakly_canonical(folder / library_name, none).string();
      return found;
    }
  found.reason = std::string(library_name) + " is neither beside the program nor in " +
                 (program / install_folder).lexically_normal().string() +
                 "; install ac-advisor again, whole";
  return found;
}

}  // namespace ac_advisor::trace
