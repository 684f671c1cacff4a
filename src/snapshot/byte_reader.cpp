#include "byte_reader.hpp"

#include <algorithm>
#include <cstring>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::snapshot {

ByteReader::ByteReader(std::unique_ptr<files::PeekedSource> source, std::string origin)
    : source_(std::move(source)), origin_(std::move(origin)), buffer_(1 << 20, '\0') {}

void ByteReader::fill() {
  before_ += at_;
  at_ = 0;
  end_ = source_->read(buffer_.data(), buffer_.size());
  if (end_ > 0) return;
  throw UserError(origin_ + ": cut short after " + std::to_string(position()) +
                  " bytes; the file was not written or copied to its end");
}

std::uint64_t ByteReader::unsigned_integer(std::size_t size) {
  std::uint64_t value = 0;
  if (end_ - at_ >= 8) {  // little-endian machines only, as all that this is built for
    std::memcpy(&value, buffer_.data() + at_, 8);
    at_ += size;
    return size == 8 ? value : value & ((std::uint64_t{1} << (8 * size)) - 1);
  }
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{byte()} << (8 * i);
  return value;
}

std::string_view ByteReader::bytes(std::size_t size) {
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

std::string_view ByteReader::line() {
  long_.clear();
  for (char c = static_cast<char>(byte()); c != '\n'; c = static_cast<char>(byte())) long_ += c;
  return long_;
}

}  // namespace ac_advisor::snapshot
