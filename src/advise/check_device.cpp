#include "check_device.hpp"

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise {

void check_device(const model::ModelSpec& model, const StepConfig& config,
                  const simulate::Device& device) {
  if (config.cuda_graph != CudaGraph::off && !device.cuda)
    throw UserError(std::string("--cuda-graph ") + to_option(config.cuda_graph) + " with --gpu " +
                    config.gpu + ": a CPU has no CUDA graphs; leave it out, or name a GPU");
  const bool eager = config.attention == Attention::eager ||
                     (config.attention == Attention::automatic && model.eager_attention_only);
  // aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, v2.11: check_tensor_dtype
  if (config.runtime == Runtime::ac_trainer && device.cuda && !eager &&
      config.compute_dtype == DType::f32)
    throw UserError("--compute-dtype fp32 with flash attention on " + device.name +
                    ": its kernel takes bf16; use --attn eager, or bf16");
}

}  // namespace ac_advisor::advise
