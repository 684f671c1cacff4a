#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "files/byte_source.hpp"

namespace ac_advisor::snapshot {

/// Values of a source, one after another; holds 1 MiB of it.
class ByteReader {
 public:
  ByteReader(std::unique_ptr<files::PeekedSource> source, std::string origin);

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
  /// The first bytes, unpacked, before any other is read; fewer than 64 where there are no more.
  [[nodiscard]] std::string_view head() { return source_->peek(64); }

 private:
  void fill();  ///< at the end of the buffer: the next bytes, or UserError

  std::unique_ptr<files::PeekedSource> source_;
  std::string origin_, buffer_, long_;
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t before_ = 0;
};

}  // namespace ac_advisor::snapshot
