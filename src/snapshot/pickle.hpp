#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "byte_reader.hpp"

namespace ac_advisor::snapshot {

/// One value of a pickle in eight bytes: its kind and a number, or where the rest of it is.
class Value {
 public:
  enum class Kind : std::uint8_t { none, boolean, integer, wide, real, string, list, tuple, dict };

  constexpr Value() = default;
  constexpr Value(Kind kind, std::int64_t payload)
      : bits_(static_cast<std::uint64_t>(payload) << 4 | static_cast<std::uint64_t>(kind)) {}

  [[nodiscard]] constexpr Kind kind() const { return static_cast<Kind>(bits_ & 15); }
  [[nodiscard]] constexpr std::int64_t payload() const {
    return static_cast<std::int64_t>(bits_) >> 4;
  }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(bits_ >> 4); }
  constexpr bool operator==(const Value&) const = default;

 private:
  std::uint64_t bits_ = 0;
};

/// What the values of a pickle point to.
class PickleStore {
 public:
  /// The text that is `id`; equal texts have one id.
  [[nodiscard]] std::string_view text(std::size_t id) const { return texts_[id]; }
  std::uint32_t intern(std::string_view text);
  /// All of them, by their ids; nothing is left.
  [[nodiscard]] std::deque<std::string> take_texts() { return std::move(texts_); }

  [[nodiscard]] std::int64_t integer(Value v) const {
    return v.kind() == Value::Kind::wide ? wide_[v.index()] : v.payload();
  }
  [[nodiscard]] bool is_integer(Value v) const {
    return v.kind() == Value::Kind::integer || v.kind() == Value::Kind::wide;
  }
  [[nodiscard]] double real(Value v) const { return reals_[v.index()]; }
  /// Of a list or tuple; of a dict its keys and values in turns. Empty for what was shaped.
  [[nodiscard]] std::span<const Value> elements(Value v) const;

  /// What a list or a dict was made into: its elements are gone, and this number stands for them.
  struct Shape {
    std::uint32_t kind = 0;  ///< 0: none
    std::uint32_t index = 0;
  };
  [[nodiscard]] Shape shape(Value v) const;
  void set_shape(Value v, Shape shape);

 private:
  friend class PickleReader;
  struct Container {
    std::uint64_t offset = 0;  ///< into pool_; a Shape's index where kind is not 0
    std::uint32_t count = 0, capacity = 0;
    std::uint32_t kind = 0;
  };

  [[nodiscard]] Value integer_value(std::int64_t value);
  [[nodiscard]] Value container(Value::Kind kind);
  void append(Value to, std::span<const Value> items);

  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> ids_;
  std::vector<std::int64_t> wide_;
  std::vector<double> reals_;
  std::deque<Container> containers_;
  std::vector<Value> pool_;
};

/// Is shown every dict that is complete, and may make it into something smaller (`set_shape`).
using Shaper = std::function<void(PickleStore&, Value dict, std::span<const Value> pairs)>;

/// Reads a pickle of plain types (None, bool, int, float, str, bytes, list, tuple, dict) of
/// protocols 0 to 5. It runs nothing: a pickle that refers to a class or a function is refused by
/// its name. Throws UserError with the file's name and the byte.
[[nodiscard]] Value read_pickle(ByteReader& source, PickleStore& store, const Shaper& shaper);

}  // namespace ac_advisor::snapshot
