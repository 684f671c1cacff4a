#include "ac_advisor/trace/read.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "files/byte_source.hpp"
#include "trace/kineto.hpp"
#include "trace/nsys.hpp"

namespace ac_advisor::trace {
namespace {

enum class Format { own, chrome, sqlite };

constexpr std::size_t head_size = 4096;
constexpr std::size_t most_of_own = std::size_t{256} << 20;
constexpr std::size_t most_of_text = std::size_t{64} << 20;
constexpr std::string_view words_of_traces[] = {"\"traceEvents\"", "\"deviceProperties\"",
                                                "\"schemaVersion\"", "\"ph\":"};
constexpr std::string_view sqlite_magic{"SQLite format 3\0", 16};
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

Format format_of(std::string_view head, const std::string& origin) {
  if (head.starts_with(sqlite_magic)) return Format::sqlite;
  if (head.starts_with(byte_order_mark)) head.remove_prefix(byte_order_mark.size());
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

/// SQLite reads here and there in a file: what comes packed or through a pipe is laid into one.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& origin) : origin_(origin) {
    std::error_code none;
    path_ = (std::filesystem::temp_directory_path(none) / "ac-advisor-XXXXXX").string();
    descriptor_ = ::mkstemp(path_.data());
    if (descriptor_ < 0) fail();
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  void fill(files::ByteSource& source) {
    char buffer[1 << 16];
    for (std::size_t got = 0; (got = source.read(buffer, sizeof buffer)) > 0;)
      for (std::size_t done = 0; done < got;) {
        const ssize_t n = ::write(descriptor_, buffer + done, got - done);
        if (n < 0 && errno != EINTR) fail();
        done += n < 0 ? 0 : static_cast<std::size_t>(n);
      }
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail() const {
    throw UserError(origin_ + ": cannot be unpacked into " + path_ + ": " + std::strerror(errno) +
                    "; set TMPDIR to a folder with room, or unpack it first");
  }
  std::string origin_, path_;
  int descriptor_ = -1;
};

}  // namespace

namespace {

TraceFile read_from(files::PeekedSource& source, const std::string& file) {
  const Format format = format_of(source.peek(head_size), file);
  if (format == Format::own) return from_json(files::read_all(source, most_of_own, file), file);
  if (format == Format::chrome) return read_kineto(source, file);
  if (files::is_plain_file(file)) return read_nsys(Database(file), file);
  TemporaryFile unpacked(file);
  unpacked.fill(source);
  return read_nsys(Database(unpacked.path(), file), file);
}

/// What this program saves names its schema at once; what profilers write has words of its own.
bool is_trace(std::string_view head) {
  if (head.starts_with(sqlite_magic)) return true;
  const std::size_t saved = head.substr(0, 200).find("\"ac-advisor/");
  if (saved != head.npos) return head.substr(saved + 1).starts_with(schema);
  return std::any_of(std::begin(words_of_traces), std::end(words_of_traces),
                     [&](std::string_view word) { return head.find(word) != head.npos; });
}

}  // namespace

TraceFile read_trace(const std::string& file) {
  const auto source = files::open_source(file);
  return read_from(*source, file);
}

std::variant<TraceFile, std::string> read_trace_or_text(const std::string& file) {
  const auto source = files::open_source(file);
  if (is_trace(source->peek(head_size))) return read_from(*source, file);
  return files::read_all(*source, most_of_text, file);
}

TraceFile read_trace_bytes(const std::string& bytes, const std::string& origin) {
  const auto source = files::open_bytes(bytes, origin);
  switch (format_of(source->peek(head_size), origin)) {
    case Format::sqlite: {
      const std::string whole = files::read_all(*source, most_of_own, origin);
      return read_nsys(Database::in_memory(whole, origin), origin);
    }
    case Format::own:
      return from_json(files::read_all(*source, most_of_own, origin), origin);
    case Format::chrome:
      break;
  }
  return read_kineto(*source, origin);
}

std::vector<std::string> trace_files(const std::string& folder) {
  static constexpr std::string_view endings[] = {".json",      ".sqlite",   ".json.gz",
                                                 ".sqlite.gz", ".json.zst", ".sqlite.zst"};
  std::vector<std::string> files;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    const std::string name = entry.path().string();
    std::error_code none;
    if (entry.is_regular_file(none) &&
        std::any_of(std::begin(endings), std::end(endings),
                    [&](std::string_view ending) { return name.ends_with(ending); }))
      files.push_back(name);
  }
  if (problem) throw UserError(folder + ": " + problem.message());
  if (files.empty())
    throw UserError(folder + ": has no file that ends in .json, .sqlite, .json.gz or .json.zst");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace ac_advisor::trace
