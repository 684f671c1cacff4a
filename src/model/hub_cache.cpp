#include "hub_cache.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "models--";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string first_word_of(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  constexpr std::size_t longest = 256;
  for (char c{}; file.get(c) && c > ' ' && word.size() < longest;) word += c;
  return word;
}

}  // namespace

fs::path hub_cache() {
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "huggingface" / "hub";
  return fs::path(variable("HOME")) / ".cache" / "huggingface" / "hub";
}

fs::path cached_model(const std::string& repository) {
  const std::size_t slash = repository.find('/');
  const bool one =
      slash != std::string::npos && repository.find('/', slash + 1) == std::string::npos;
  if (!one || slash == 0 || slash + 1 == repository.size() || repository[0] == '.') return {};
  const fs::path folder = hub_cache() / fmt::format("{}{}--{}", prefix, repository.substr(0, slash),
                                                    repository.substr(slash + 1));
  std::error_code error;
  return fs::is_directory(folder, error) ? folder : fs::path();
}

fs::path snapshot_of(const fs::path& folder) {
  std::error_code error;
  const fs::path snapshots = folder / "snapshots";
  const fs::path name = fs::absolute(folder, error).lexically_normal();
  const std::string last = (name.has_filename() ? name : name.parent_path()).filename().string();
  if (!last.starts_with(prefix)) return {};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(snapshots, error))
    if (entry.is_directory(error)) found.push_back(entry.path());
  const std::string commit = first_word_of(folder / "refs" / "main");
  for (const fs::path& snapshot : found)
    if (snapshot.filename() == commit) return snapshot;
  if (found.size() == 1) return found.front();
  throw UserError(fmt::format(
      "{}: {}; give one snapshot's folder", folder.string(),
      found.empty()
          ? "this part of a Hugging Face cache has no snapshots"
          : fmt::format("has {} snapshots, and refs/main names none of them", found.size())));
}

std::string repository_name(const fs::path& folder) {
  if (folder.parent_path().filename() != "snapshots") return {};
  const std::string repository = folder.parent_path().parent_path().filename().string();
  const std::size_t last = repository.rfind("--");
  return repository.starts_with(prefix) && last >= prefix.size() && last + 2 < repository.size()
             ? repository.substr(last + 2)
             : std::string();
}

}  // namespace ac_advisor::model
