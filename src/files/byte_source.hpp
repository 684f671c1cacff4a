#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

/// Files that may be compressed, pipes, and bytes in memory, read once from front to back.
namespace ac_advisor::files {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;
  /// At most `size` bytes to `to`; 0 at the end only. Throws UserError naming the file.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

/// A source whose first bytes can be looked at before it is read.
class PeekedSource final : public ByteSource {
 public:
  explicit PeekedSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}
  /// The first `size` bytes, fewer where there are no more. Valid until the next call.
  [[nodiscard]] std::string_view peek(std::size_t size);
  std::size_t read(char* to, std::size_t size) override;

 private:
  std::unique_ptr<ByteSource> inner_;
  std::string head_;
  std::size_t taken_ = 0;
};

/// A file or a pipe; "-" is the standard input. gzip and zstd are unpacked as they are read,
/// whatever the name says. Throws UserError naming the file: it cannot be opened, is a folder, or
/// needs what this build lacks.
[[nodiscard]] std::unique_ptr<PeekedSource> open_source(const std::string& file);
/// The same of bytes, which must outlive it.
[[nodiscard]] std::unique_ptr<PeekedSource> open_bytes(std::string_view bytes,
                                                       const std::string& origin);
/// The file lies on a disk as it is: neither compressed nor a pipe, so that it can be mapped.
[[nodiscard]] bool is_plain_file(const std::string& file);

/// All of it. Throws UserError beyond `most` bytes.
[[nodiscard]] std::string read_all(ByteSource& source, std::size_t most, const std::string& origin);

// What the first bytes tell; one file each.
inline constexpr std::string_view gzip_magic = "\x1f\x8b";
inline constexpr std::string_view zstd_magic = "\x28\xb5\x2f\xfd";
[[nodiscard]] std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed,
                                                      const std::string& origin);
[[nodiscard]] std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed,
                                                      const std::string& origin);

}  // namespace ac_advisor::files
