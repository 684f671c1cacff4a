#include <zstd.h>

#include <vector>

#include "ac_advisor/model/error.hpp"
#include "files/byte_source.hpp"

namespace ac_advisor::files {
namespace {

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> packed, std::string origin)
      : packed_(std::move(packed)),
        origin_(std::move(origin)),
        stream_(ZSTD_createDStream()),
        buffer_(ZSTD_DStreamInSize()) {
    if (!stream_) throw UserError(origin_ + ": cannot be unpacked: out of memory");
  }

  std::size_t read(char* to, std::size_t size) override {
    ZSTD_outBuffer out{to, size, 0};
    while (out.pos == 0 && size > 0) {
      if (in_.pos == in_.size)
        in_ = {buffer_.data(), packed_->read(buffer_.data(), buffer_.size()), 0};
      const bool ended = in_.size == 0;
      if (ended && frame_done_) return 0;
      const std::size_t hint = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(hint) != 0U)
        throw UserError(origin_ + ": its zstd stream is damaged (" + ZSTD_getErrorName(hint) + ")");
      frame_done_ = hint == 0;
      if (ended && out.pos == 0 && !frame_done_)
        throw UserError(origin_ + ": is cut off: its zstd stream has no end");
    }
    return out.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ByteSource> packed_;
  std::string origin_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool frame_done_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed,
                                        const std::string& origin) {
  return std::make_unique<ZstdSource>(std::move(packed), origin);
}

}  // namespace ac_advisor::files
