#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::passes::compile {

/// What tells one unit from another, as bytes.
class KeyText {
 public:
  template <typename T>
  void add(T number) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void add(const ir::Attributes& attributes);
  void add(const ir::Shape& shape);
  void add(const std::string& text) { text_ += text; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Ops [first, end) of a program, holds left out: kinds, attributes, sizes, and where operands come
/// from. `inputs` gets the roots that others made, in the order in which they are first read.
[[nodiscard]] std::string signature(const ir::Program& program, ir::OpId first, ir::OpId end,
                                    std::vector<ir::ValueId>& inputs);

/// The same with all else that a trace of the ops can read of their program, by numbers of its own:
/// units of one key are alike in whatever programs.
[[nodiscard]] std::string whole_key(const ir::Program& program, ir::OpId first, ir::OpId end);

}  // namespace ac_advisor::passes::compile
