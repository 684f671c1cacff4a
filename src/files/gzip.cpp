#include <zlib.h>

#include <algorithm>
#include <array>

#include "ac_advisor/model/error.hpp"
#include "files/byte_source.hpp"

namespace ac_advisor::files {
namespace {

class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed, std::string origin)
      : packed_(std::move(packed)), origin_(std::move(origin)) {
    constexpr int gzip_only = 15 + 16;  // zlib.h: the largest window, a gzip header
    if (inflateInit2(&stream_, gzip_only) != Z_OK)
      throw UserError(origin_ + ": cannot be unpacked: out of memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(char* to, std::size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1U << 30U));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && !done_) step();
    return wanted - stream_.avail_out;
  }

 private:
  void step() {
    if (stream_.avail_in == 0) refill();
    if (stream_.avail_in == 0) {
      // A file may be several members, one behind the other, and ends behind any of them.
      if (!between_) throw UserError(origin_ + ": is cut off: its gzip stream has no end");
      done_ = true;
      return;
    }
    if (between_) next_member();
    if (done_) return;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw UserError(origin_ + ": its gzip stream is damaged" +
                      (stream_.msg == nullptr ? "" : std::string(" (") + stream_.msg + ")"));
    }
  }
  /// What follows the last member and is none, gzip ignores.
  void next_member() {
    between_ = false;
    if (*stream_.next_in != static_cast<unsigned char>(gzip_magic[0]))
      done_ = true;
    else
      inflateReset(&stream_);
  }
  void refill() {
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(packed_->read(buffer_.data(), buffer_.size()));
  }

  std::unique_ptr<ByteSource> packed_;
  std::string origin_;
  z_stream stream_{};
  std::array<char, 1 << 16> buffer_{};
  bool between_ = false;  ///< of two members
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed,
                                        const std::string& origin) {
  return std::make_unique<GzipSource>(std::move(packed), origin);
}

}  // namespace ac_advisor::files
