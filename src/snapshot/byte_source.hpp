#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ac_advisor::snapshot {

/// The bytes of a file or of memory, in order, unpacked where they are gzip; holds 1 MiB of them.
class ByteSource {
 public:
  /// Fills at most `size` bytes, returns how many; 0 is the end. May throw UserError.
  using Read = std::function<std::size_t(char* to, std::size_t size)>;

  ByteSource(Read read, std::string origin);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Throws UserError ("cut short") at the end.
  [[nodiscard]] std::uint8_t byte() {
    if (at_ == end_) fill();
    return static_cast<std::uint8_t>(buffer_[at_++]);
  }
  /// Little-endian, `size` of at most 8 bytes.
  [[nodiscard]] std::uint64_t unsigned_integer(std::size_t size);
  /// Valid until the next call.
  [[nodiscard]] std::string_view bytes(std::size_t size);
  /// Up to the next line end, which is not part of it. Valid until the next call.
  [[nodiscard]] std::string_view line();

  /// Of the unpacked bytes.
  [[nodiscard]] std::uint64_t position() const { return before_ + at_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  /// The first bytes of the file, unpacked; fewer than four where it is shorter.
  [[nodiscard]] std::string_view head();

 private:
  struct Gzip;

  void fill();  ///< at the end of the buffer: the next bytes, or UserError
  [[nodiscard]] bool more();
  [[nodiscard]] std::size_t read(char* to, std::size_t size);

  Read read_;
  std::string origin_, buffer_, long_;
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t before_ = 0;
  std::unique_ptr<Gzip> gzip_;
};

/// Throws UserError where it cannot be opened.
[[nodiscard]] ByteSource::Read read_file(const std::string& path);
/// `bytes` must outlive it.
[[nodiscard]] ByteSource::Read read_memory(std::string_view bytes);

}  // namespace ac_advisor::snapshot
