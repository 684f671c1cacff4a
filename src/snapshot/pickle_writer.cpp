#include "pickle_writer.hpp"

#include <bit>
#include <limits>

namespace ac_advisor::snapshot {

void PickleWriter::begin(char op) {
  out_ += op;
  out_ += '\x94';  // MEMOIZE
  ++memos_;
  out_ += '(';
}

void PickleWriter::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 255);
}

void PickleWriter::again(std::uint32_t memo) {
  out_ += memo < 256 ? 'h' : 'j';
  number(memo, memo < 256 ? 1 : 4);
}

void PickleWriter::text(std::string_view value) {
  const auto [found, fresh] = texts_.try_emplace(std::string(value), memos_);
  if (!fresh) return again(found->second);
  ++memos_;
  const bool is_short = value.size() < 256;
  out_ += is_short ? '\x8c' : 'X';
  number(value.size(), is_short ? 1 : 4);
  out_ += value;
  out_ += '\x94';
}

void PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0 && value < 256) {
    out_ += 'K';
    number(bits, 1);
  } else if (value >= 0 && value < 65536) {
    out_ += 'M';
    number(bits, 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += 'J';
    number(bits, 4);
  } else {
    out_ += '\x8a';
    number(8, 1);
    number(bits, 8);
  }
}

void PickleWriter::real(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  out_ += 'G';
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> (8 * i) & 255);
}

void PickleWriter::pair(std::int64_t a, std::int64_t b) {
  integer(a);
  integer(b);
  out_ += '\x86';  // TUPLE2
  out_ += '\x94';
  ++memos_;
}

}  // namespace ac_advisor::snapshot
