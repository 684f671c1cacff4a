#include "files/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::files {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, std::string file) : descriptor_(descriptor), file_(std::move(file)) {}
  ~FileSource() override {
    if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
  }
  std::size_t read(char* to, std::size_t size) override {
    for (;;) {
      const ssize_t got = ::read(descriptor_, to, size);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw UserError(file_ + ": cannot be read: " + std::strerror(errno));
    }
  }

 private:
  int descriptor_;
  std::string file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : rest_(bytes) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t got = std::min(size, rest_.size());
    std::memcpy(to, rest_.data(), got);
    rest_.remove_prefix(got);
    return got;
  }

 private:
  std::string_view rest_;
};

std::unique_ptr<PeekedSource> unpacked(std::unique_ptr<ByteSource> raw, const std::string& origin) {
  auto source = std::make_unique<PeekedSource>(std::move(raw));
  const std::string_view head = source->peek(zstd_magic.size());
  if (head.starts_with(gzip_magic))
    return std::make_unique<PeekedSource>(unpack_gzip(std::move(source), origin));
  if (head == zstd_magic)
    return std::make_unique<PeekedSource>(unpack_zstd(std::move(source), origin));
  return source;
}

int open_for_reading(const std::string& file) {
  if (file == "-") return STDIN_FILENO;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw UserError(file + ": " + std::strerror(errno));
  return descriptor;
}

}  // namespace

std::string_view PeekedSource::peek(std::size_t size) {
  if (size == 0) return {};
  while (head_.size() < taken_ + size) {
    const std::size_t have = head_.size();
    head_.resize(taken_ + size);
    const std::size_t got = inner_->read(head_.data() + have, head_.size() - have);
    head_.resize(have + got);
    if (got == 0) break;
  }
  return std::string_view(head_).substr(taken_, size);
}

std::size_t PeekedSource::read(char* to, std::size_t size) {
  if (taken_ == head_.size()) return inner_->read(to, size);
  const std::size_t got = std::min(size, head_.size() - taken_);
  std::memcpy(to, head_.data() + taken_, got);
  taken_ += got;
  return got;
}

std::unique_ptr<PeekedSource> open_source(const std::string& file) {
  auto raw = std::make_unique<FileSource>(open_for_reading(file), file);
  struct stat about {};
  if (file != "-" && ::stat(file.c_str(), &about) == 0 && S_ISDIR(about.st_mode))
    throw UserError(file + ": is a folder, not a file");
  return unpacked(std::move(raw), file);
}

std::unique_ptr<PeekedSource> open_bytes(std::string_view bytes, const std::string& origin) {
  return unpacked(std::make_unique<MemorySource>(bytes), origin);
}

bool is_plain_file(const std::string& file) {
  struct stat about {};
  if (file == "-" || ::stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return false;
  FileSource raw(open_for_reading(file), file);
  std::string head(zstd_magic.size(), '\0');
  head.resize(raw.read(head.data(), head.size()));
  return !head.starts_with(gzip_magic) && head != zstd_magic;
}

std::string read_all(ByteSource& source, std::size_t most, const std::string& origin) {
  std::string text;
  char buffer[1 << 16];
  for (std::size_t got = 0; (got = source.read(buffer, sizeof buffer)) > 0;) {
    text.append(buffer, got);
    if (text.size() > most)
      throw UserError(origin + ": larger than " + std::to_string(most >> 20U) +
                      " MiB, which no such file is");
  }
  return text;
}

}  // namespace ac_advisor::files
