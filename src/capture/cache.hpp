#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ac_advisor::capture {

/// XDG_CACHE_HOME/ac-advisor, or ~/.cache/ac-advisor.
[[nodiscard]] std::filesystem::path cache_folder();

[[nodiscard]] std::optional<std::string> read_file(const std::filesystem::path& path);
/// Whole or not at all. Throws UserError naming XDG_CACHE_HOME.
void write_file(const std::filesystem::path& path, const std::string& text);

/// A folder in the cache for what is being made; gone with this. Throws UserError likewise.
class Workplace {
 public:
  explicit Workplace(const std::filesystem::path& parent);
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace ac_advisor::capture
