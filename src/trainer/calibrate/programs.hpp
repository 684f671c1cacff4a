#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::trainer {

/// Which set of programs: "full", "quick", or "tiny" (of the tests).
struct CalibrationSet {
  struct Model {
    model::ModelSpec spec;
    OptionList options;
  };
  struct Product {
    ir::Form form;
    std::int64_t m, n, k;
  };
  std::vector<Model> models;                ///< whole steps: every op in its place
  std::vector<Product> products;            ///< a grid of matrix products beside them
  std::vector<std::int64_t> list_elements;  ///< optimizers: elements a tensor
  double model_seconds = 1, product_seconds = 0.1, list_seconds = 0.3;  ///< for each
  double most_seconds = 170;    ///< after which nothing more is begun; the grid comes last
  std::int64_t most_flops = 0;  ///< of one product
};
/// Throws UserError for another word. `cuda`: a GPU's sizes.
[[nodiscard]] CalibrationSet calibration_set(const std::string& extent, bool cuda);

/// y = a product of x and another matrix, `copies` times with other matrices, so that they come
/// from memory as a layer's weights do.
[[nodiscard]] passes::StepProgram product_program(const CalibrationSet::Product& product,
                                                  DType dtype, std::int64_t copies);
/// One optimizer step on `tensors` tensors of `elements` each.
[[nodiscard]] passes::StepProgram list_program(Optimizer optimizer, DType dtype,
                                               std::int64_t tensors, std::int64_t elements);

}  // namespace ac_advisor::trainer
