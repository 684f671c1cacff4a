#include "byte_source.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::snapshot {
namespace {

constexpr std::size_t buffer_size = 1 << 20;

}  // namespace

struct ByteSource::Gzip {
  z_stream stream{};
  std::string packed = std::string(buffer_size, '\0');
  bool ended = false;

  Gzip() { inflateInit2(&stream, 15 + 16); }  // gzip alone
  ~Gzip() { inflateEnd(&stream); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
};

ByteSource::ByteSource(Read read, std::string origin)
    : read_(std::move(read)), origin_(std::move(origin)), buffer_(buffer_size, '\0') {
  char first[2] = {};
  std::size_t n = 0;
  for (std::size_t got = 1; n < 2 && got > 0; n += got) got = read_(first + n, 2 - n);
  if (n == 2 && first[0] == '\x1f' && first[1] == '\x8b') {
    gzip_ = std::make_unique<Gzip>();
    std::copy(first, first + 2, gzip_->packed.begin());
    gzip_->stream.next_in = reinterpret_cast<Bytef*>(gzip_->packed.data());
    gzip_->stream.avail_in = 2;
  } else {
    std::copy(first, first + n, buffer_.begin());
    end_ = n;
  }
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(char* to, std::size_t size) {
  if (gzip_ == nullptr) return read_(to, size);
  z_stream& z = gzip_->stream;
  z.next_out = reinterpret_cast<Bytef*>(to);
  z.avail_out = static_cast<uInt>(size);
  while (z.avail_out == size) {
    if (z.avail_in == 0) {
      z.avail_in = static_cast<uInt>(read_(gzip_->packed.data(), buffer_size));
      z.next_in = reinterpret_cast<Bytef*>(gzip_->packed.data());
      if (z.avail_in == 0) return 0;
    }
    if (gzip_->ended) {  // a file of several members, one after another
      inflateReset(&z);
      gzip_->ended = false;
    }
    const int result = inflate(&z, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
      gzip_->ended = true;
    else if (result != Z_OK && result != Z_BUF_ERROR)
      throw UserError(origin_ + ": its gzip data is damaged at byte " + std::to_string(z.total_in));
  }
  return size - z.avail_out;
}

bool ByteSource::more() {
  before_ += at_;
  at_ = 0;
  end_ = read(buffer_.data(), buffer_size);
  return end_ > 0;
}

void ByteSource::fill() {
  if (more()) return;
  throw UserError(origin_ + ": cut short after " + std::to_string(position()) +
                  " bytes; the file was not written or copied to its end");
}

std::uint64_t ByteSource::unsigned_integer(std::size_t size) {
  std::uint64_t value = 0;
  if (end_ - at_ >= 8) {  // little-endian machines only, as all that this is built for
    std::memcpy(&value, buffer_.data() + at_, 8);
    at_ += size;
    return size == 8 ? value : value & ((std::uint64_t{1} << (8 * size)) - 1);
  }
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{byte()} << (8 * i);
  return value;
}

std::string_view ByteSource::bytes(std::size_t size) {
  if (end_ - at_ >= size) {
    const std::string_view view(buffer_.data() + at_, size);
    at_ += size;
    return view;
  }
  // A length that the file does not have must not be allocated before it is read.
  long_.clear();
  while (long_.size() < size) {
    if (at_ == end_) fill();
    const std::size_t part = std::min(size - long_.size(), end_ - at_);
    long_.append(buffer_, at_, part);
    at_ += part;
  }
  return long_;
}

std::string_view ByteSource::line() {
  long_.clear();
  for (char c = static_cast<char>(byte()); c != '\n'; c = static_cast<char>(byte())) long_ += c;
  return long_;
}

std::string_view ByteSource::head() {
  while (end_ < 4 && before_ == 0) {
    const std::size_t n = read(buffer_.data() + end_, buffer_size - end_);
    if (n == 0) break;
    end_ += n;
  }
  return std::string_view(buffer_).substr(0, std::min<std::size_t>(end_, 64));
}

ByteSource::Read read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) throw UserError(path + ": " + std::strerror(errno));
  std::shared_ptr<std::FILE> owned(file, std::fclose);
  std::setvbuf(file, nullptr, _IONBF, 0);
  return [owned, path](char* to, std::size_t size) {
    const std::size_t n = std::fread(to, 1, size, owned.get());
    if (n == 0 && std::ferror(owned.get()) != 0)
      throw UserError(path + ": " + std::strerror(errno));
    return n;
  };
}

ByteSource::Read read_memory(std::string_view bytes) {
  return [bytes](char* to, std::size_t size) mutable {
    const std::size_t n = std::min(size, bytes.size());
    std::copy_n(bytes.data(), n, to);
    bytes.remove_prefix(n);
    return n;
  };
}

}  // namespace ac_advisor::snapshot
