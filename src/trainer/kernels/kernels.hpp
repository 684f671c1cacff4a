#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::trainer {

class Executor;

/// One execution of an op, as its kernel sees it.
class Call {
 public:
  Call(Executor& executor, const ir::Op& op) : executor_(executor), op_(op) {}

  [[nodiscard]] const ir::Op& op() const { return op_; }
  template <typename A>
  [[nodiscard]] const A& attributes() const {
    return ir::attributes<A>(op_);
  }
  [[nodiscard]] std::size_t inputs() const { return op_.inputs; }
  [[nodiscard]] std::size_t outputs() const { return op_.outputs; }
  [[nodiscard]] at::Tensor in(std::size_t i) const;
  /// The output: new memory, or where the op writes over an input, that input's.
  [[nodiscard]] at::Tensor out(std::size_t i = 0) const;
  /// The output is this tensor: a view of an input, or one that the kernel had LibTorch allocate.
  void set_view(std::size_t i, const at::Tensor& view) const;
  void adopt(std::size_t i, const at::Tensor& made) const;
  [[nodiscard]] const ir::Value& in_value(std::size_t i) const;
  [[nodiscard]] const ir::Value& out_value(std::size_t i) const;
  /// The root's: a pass may have moved it after the view was made.
  [[nodiscard]] ir::StorageId in_storage(std::size_t i) const;
  [[nodiscard]] ir::StorageId out_storage(std::size_t i) const;
  /// Of the output's storage.
  [[nodiscard]] std::int64_t out_bytes(std::size_t i) const;
  /// What a dropout op draws with: the same in forward, recomputation and backward.
  [[nodiscard]] std::uint64_t dropout_key() const;
  [[nodiscard]] const ir::Program& program() const;
  [[nodiscard]] Executor& executor() const { return executor_; }

 private:
  Executor& executor_;
  const ir::Op& op_;
};

using Kernel = void (*)(const Call&);

struct KernelRow {
  ir::OpKind kind;
  Kernel kernel;
};
/// One kernel a kind for a device, by the kind's number.
using KernelTable = std::array<Kernel, ir::op_kind_count>;

/// torch.nn.CrossEntropyLoss's ignore_index: tokens with this label do not count.
inline constexpr std::int64_t ignored_label = -100;

[[nodiscard]] at::ScalarType scalar_type(DType dtype);
[[nodiscard]] at::IntArrayRef sizes(const ir::Shape& shape);

}  // namespace ac_advisor::trainer
