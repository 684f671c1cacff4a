#include "ac_advisor/trace/read.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "trace/kineto.hpp"
#include "trace/nsys.hpp"

namespace ac_advisor::trace {
namespace {

enum class Format { own, chrome, sqlite };

constexpr std::size_t head_size = 4096;
constexpr std::string_view sqlite_magic{"SQLite format 3\0", 16};

Format format_of(std::string_view head, const std::string& origin) {
  if (head.starts_with("\x1f\x8b"))
    throw UserError(origin + ": is compressed; unpack it first: gunzip -k " + origin);
  if (head.starts_with(sqlite_magic)) return Format::sqlite;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) throw UserError(origin + ": is empty");
  if (head[first] != '{' && head[first] != '[') {
    const bool report = origin.ends_with(".nsys-rep") || origin.ends_with(".qdrep");
    throw UserError(origin + (report ? ": is a report of Nsight Systems; export it first: nsys "
                                       "export --type sqlite " +
                                           origin
                                     : std::string(": neither JSON nor SQLite; give what "
                                                   "ac-advisor trace, torch.profiler or nsys "
                                                   "export --type sqlite wrote")));
  }
  // Its first key, so its first lines.
  return head.substr(0, 200).find(schema) != std::string_view::npos ? Format::own : Format::chrome;
}

std::string read_all(std::istream& stream, const std::string& file) {
  constexpr std::size_t most = std::size_t{256} << 20;
  std::string text;
  for (char buffer[1 << 16]; stream.read(buffer, sizeof buffer), stream.gcount() > 0;) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most)
      throw UserError(file + ": larger than 256 MiB, which no trace of ac-advisor is");
  }
  return text;
}

}  // namespace

TraceFile read_trace(const std::string& file) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none))
    throw UserError(file + ": is a folder, not a trace");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UserError(file + ": " + std::strerror(errno));
  std::string head(head_size, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(stream.gcount()));
  const Format format = format_of(head, file);
  if (format == Format::sqlite) return read_nsys(Database(file), file);
  stream.clear();
  stream.seekg(0);
  if (!stream) throw UserError(file + ": cannot be read from its start; give a file, not a pipe");
  return format == Format::own ? from_json(read_all(stream, file), file)
                               : read_kineto(stream, file);
}

TraceFile read_trace_bytes(const std::string& bytes, const std::string& origin) {
  switch (format_of(std::string_view(bytes).substr(0, head_size), origin)) {
    case Format::sqlite:
      return read_nsys(Database(bytes, origin), origin);
    case Format::own:
      return from_json(bytes, origin);
    case Format::chrome:
      break;
  }
  std::istringstream stream(bytes);
  return read_kineto(stream, origin);
}

}  // namespace ac_advisor::trace
