#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ac_advisor::snapshot {

/// Writes a pickle of plain types, in the opcodes that Python's own pickler uses at protocol 4.
class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x04"; }

  void begin_dict() { begin('}'); }
  void end_dict() { out_ += 'u'; }
  void begin_list() { begin(']'); }
  void end_list() { out_ += 'e'; }
  /// The number by which `again` repeats the container that is begun next.
  [[nodiscard]] std::uint32_t next_memo() const { return memos_; }
  void again(std::uint32_t memo);

  void text(std::string_view value);
  void integer(std::int64_t value);
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void real(double value);
  void pair(std::int64_t a, std::int64_t b);

  void entry(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  void entry(std::string_view key, std::int64_t value) {
    text(key);
    integer(value);
  }

  /// Ends the pickle; the writer is empty after it.
  [[nodiscard]] std::string take() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  void begin(char op);
  void number(std::uint64_t value, int bytes);

  std::string out_;
  std::uint32_t memos_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

}  // namespace ac_advisor::snapshot
