#include "cache.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::capture {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_not_written(const fs::path& path, const std::string& why) {
  throw UserError(path.string() + ": cannot be written: " + why +
                  "; set XDG_CACHE_HOME to a folder for what is kept");
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_not_written(folder, error.message());
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

fs::path cache_folder() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "ac-advisor";
  const std::string home = variable("HOME");
  if (home.empty())
    throw UserError("HOME is not set: set XDG_CACHE_HOME to a folder for what is kept");
  return fs::path(home) / ".cache/ac-advisor";
}

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  make_folder(path.parent_path());
  const fs::path part = path.string() + "." + std::to_string(::getpid()) + ".part";
  std::ofstream stream(part, std::ios::binary);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) fs::rename(part, path, error);
  if (stream && !error) return;
  const std::string why = error ? error.message() : std::strerror(errno);
  fs::remove(part, error);
  fail_not_written(path, why);
}

Workplace::Workplace(const fs::path& parent) {
  make_folder(parent);
  std::string name = (parent / "making.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail_not_written(parent, std::strerror(errno));
  path_ = name;
}

Workplace::~Workplace() {
  std::error_code none;
  fs::remove_all(path_, none);
}

}  // namespace ac_advisor::capture
