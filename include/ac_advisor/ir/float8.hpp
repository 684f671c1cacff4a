#pragma once

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::ir {

/// An operand of a scaled product: its elements in fp8 and what they were multiplied by.
struct Float8Operand {
  ValueId data = no_id, scale = no_id;
};

/// Writes what torchao 0.18 (float8/float8_linear.py, float8_utils.py, float8_training_tensor.py,
/// float8_ops.py) runs around a product in fp8, op by op: in forward, and in the backward of
/// matmul_with_hp_or_float8_args, which casts what it saved once more.
class Float8Writer {
 public:
  /// Whose scale is one number: of a row of the operand as it is stored, or of a column.
  enum class Along : std::uint8_t { rows, columns };

  Float8Writer(Program& program, Phase phase, ModulePath module, bool rowwise)
      : p_(program), phase_(phase), module_(module), rowwise_(rowwise) {}
  /// Ops of the autograd node `group`, which `forward` made.
  void set_node(std::int32_t group, OpId forward) {
    group_ = group;
    forward_ = forward;
  }

  /// hp_tensor_to_float8_dynamic of `x` [rows.., columns]; `transposed`: it is given as x.t().
  /// `shared`: of a DTensor whose ranks have parts of what one scale is of.
  Float8Operand cast(ValueId x, bool transposed, Along along, bool shared = false);
  /// preprocess_addmm: the operand lies the other way round for its product, and is copied.
  Float8Operand copied(const Float8Operand& x);
  /// addmm_float8_unwrapped, into `shape` of the operands' type before the cast. `fast`: with
  /// use_fast_accum; without, the scales of rows and columns multiply the product afterwards.
  ValueId product(const Float8Operand& a, const Float8Operand& b, const Shape& shape, DType dtype,
                  const Product& product, bool fast);
  void hold(std::initializer_list<ValueId> values) { emit(OpKind::hold, values, {}); }

  /// Of MX formats (torchao 0.18, prototype/mx_formats): `x` by blocks of 32 along its rows, or
  /// written the other way round along its columns.
  Float8Operand mx_cast(ValueId x, Along along);
  /// _addmm_mx_dispatch: both operands' scales are first laid as cuBLAS reads them.
  ValueId mx_product(const Float8Operand& a, const Float8Operand& b, const Shape& shape,
                     DType dtype, const Product& product);

 private:
  ValueId mx_blocked(ValueId scales);
  ValueId make(const Shape& shape, DType dtype, bool temporary = false);
  void emit(OpKind kind, std::initializer_list<ValueId> inputs,
            std::initializer_list<ValueId> outputs, const Attributes& attributes = {});
  ValueId pointwise(OpKind kind, std::initializer_list<ValueId> inputs, DType dtype,
                    const Attributes& attributes = {});

  Program& p_;
  Phase phase_;
  ModulePath module_;
  bool rowwise_;
  std::int32_t group_ = 0;
  OpId forward_ = no_id;
};

/// What a value in fp8 was multiplied by before it was cast, whatever has gathered it since.
[[nodiscard]] ValueId float8_scale_of(const Program& program, ValueId data);

}  // namespace ac_advisor::ir
