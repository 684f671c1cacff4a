#include "read_text.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::gate {

std::optional<std::string> read_text(const std::string& path) {
  constexpr std::size_t most = std::size_t{64} << 20;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
  if (std::filesystem::is_directory(status)) throw UserError(path + ": is a folder, not a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char piece[1 << 16];
  while (file.read(piece, sizeof piece) || file.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) throw UserError(path + ": larger than 64 MiB");
  }
  if (!file.eof())
    throw UserError(path + ": cannot be read: " + std::strerror(errno == 0 ? EIO : errno));
  return text;
}

}  // namespace ac_advisor::gate
