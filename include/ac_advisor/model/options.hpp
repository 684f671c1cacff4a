#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor {

/// Options given by hand, in order: {"--ac", "grouped:2"}, {"--hold-output", ""}. Names are those
/// of the command-line contract (design, section 8).
using OptionList = std::vector<std::pair<std::string, std::string>>;

/// Whether an option is in the list.
[[nodiscard]] inline bool given(const OptionList& options, std::string_view name) {
  return std::any_of(options.begin(), options.end(),
                     [&](const auto& option) { return option.first == name; });
}

/// The framework's preset with the options by hand over it. Throws UserError naming option, value
/// and what would be right ("--ac grouped:0: K must be at least 1").
[[nodiscard]] StepConfig resolve_options(const OptionList& options);

/// Text forms: `parse_*` throw UserError; `to_option` gives what `parse_*` reads.
[[nodiscard]] std::string ac_option(const StepConfig& config);  ///< "grouped:2"
/// Parts of modules:PARTS, in Megatron-LM's order.
[[nodiscard]] std::string layer_parts_text(const StepConfig& config, const char* between = "+");
[[nodiscard]] std::string loss_option(const StepConfig& config);         ///< "chunked:1024"
[[nodiscard]] const char* autocast_option(const StepConfig& config);     ///< "fp16"
[[nodiscard]] std::string shard_option(const StepConfig& config);        ///< "hsdp:4"
[[nodiscard]] std::string rollout_option(const StepConfig& config);      ///< "vllm:0.3"
[[nodiscard]] std::string compression_option(const StepConfig& config);  ///< "powersgd:2"
[[nodiscard]] std::string pp_schedule_option(const StepConfig& config);  ///< "interleaved:2"
[[nodiscard]] std::string pp_layers_text(const StepConfig& config);      ///< "6,6,5", or empty
[[nodiscard]] std::string image_pixels_text(const StepConfig& config);   ///< "448x672", or empty
[[nodiscard]] std::string freeze_text(const StepConfig& config);  ///< "tower,projector", or empty
[[nodiscard]] std::string lora_targets_text(const StepConfig& config);
[[nodiscard]] std::string adapter_option(const StepConfig& config);  ///< "loha:8", or "none"
/// As it is given by hand: "--lora 16", "--adapter loha:8".
[[nodiscard]] std::string given_adapters(const StepConfig& config);
[[nodiscard]] const char* to_option(Task task);
[[nodiscard]] const char* to_option(Reference reference);
[[nodiscard]] const char* to_option(Parked parked);
[[nodiscard]] const char* to_option(Quantization how);
[[nodiscard]] const char* to_option(AcScope scope);
[[nodiscard]] const char* to_option(Kernels kernels);
[[nodiscard]] const char* to_option(Optimizer optimizer);
/// Bytes of a cuBLAS workspace by CUBLAS_WORKSPACE_CONFIG (aten/src/ATen/cuda/
/// CublasHandlePool.cpp, v2.11, parseChosenWorkspaceSize); none where that is malformed.
[[nodiscard]] std::optional<std::int64_t> cublas_workspace_bytes(const std::string& conf);
[[nodiscard]] const char* to_option(TransformerImpl impl);
[[nodiscard]] const char* to_option(Attention attention);
[[nodiscard]] const char* to_option(CudaGraph graph);
[[nodiscard]] const char* to_option(Offload offload);
[[nodiscard]] const char* to_option(Fp8Recipe recipe);
[[nodiscard]] const char* to_option(DType dtype);
[[nodiscard]] const char* to_option(FsdpUnit unit);
/// "40GiB", "16GB", "1.5TiB", "123456" → bytes.
[[nodiscard]] std::int64_t parse_size(const std::string& option, const std::string& text);

}  // namespace ac_advisor
