#include "emulator/answer.hpp"

/// The functions that take a handle and that nothing answers for: older interfaces, whose
/// workspaces and algorithms only a real device's handle tells. Those without a handle are the real
/// library's.
namespace emulator::cudnn {

#define REFUSED(name)                                                                         \
  ANSWER int name() {                                                                         \
    unanswered(                                                                               \
        #name,                                                                                \
        "cuDNN's backend interface alone is answered for: attention, matrix products, norms " \
        "and convolutions as graphs; torch.backends.cudnn.enabled = False takes PyTorch's "   \
        "own kernels");                                                                       \
  }

REFUSED(cudnnActivationBackward)
REFUSED(cudnnActivationForward)
REFUSED(cudnnAddTensor)
REFUSED(cudnnBackendPopulateCudaGraph)
REFUSED(cudnnBackendUpdateCudaGraph)
REFUSED(cudnnBatchNormalizationBackward)
REFUSED(cudnnBatchNormalizationBackwardEx)
REFUSED(cudnnBatchNormalizationForwardInference)
REFUSED(cudnnBatchNormalizationForwardTraining)
REFUSED(cudnnBatchNormalizationForwardTrainingEx)
REFUSED(cudnnBuildRNNDynamic)
REFUSED(cudnnCTCLoss)
REFUSED(cudnnCTCLoss_v8)
REFUSED(cudnnConvolutionBackwardBias)
REFUSED(cudnnConvolutionBackwardData)
REFUSED(cudnnConvolutionBackwardFilter)
REFUSED(cudnnConvolutionBiasActivationForward)
REFUSED(cudnnConvolutionForward)
REFUSED(cudnnDivisiveNormalizationBackward)
REFUSED(cudnnDivisiveNormalizationForward)
REFUSED(cudnnDropoutBackward)
REFUSED(cudnnDropoutForward)
REFUSED(cudnnDropoutGetStatesSize)
REFUSED(cudnnFindConvolutionBackwardDataAlgorithm)
REFUSED(cudnnFindConvolutionBackwardDataAlgorithmEx)
REFUSED(cudnnFindConvolutionBackwardFilterAlgorithm)
REFUSED(cudnnFindConvolutionBackwardFilterAlgorithmEx)
REFUSED(cudnnFindConvolutionForwardAlgorithm)
REFUSED(cudnnFindConvolutionForwardAlgorithmEx)
REFUSED(cudnnFusedOpsExecute)
REFUSED(cudnnGetBatchNormalizationBackwardExWorkspaceSize)
REFUSED(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)
REFUSED(cudnnGetBatchNormalizationTrainingExReserveSpaceSize)
REFUSED(cudnnGetCTCLossWorkspaceSize)
REFUSED(cudnnGetCTCLossWorkspaceSize_v8)
REFUSED(cudnnGetConvolutionBackwardDataAlgorithmMaxCount)
REFUSED(cudnnGetConvolutionBackwardDataAlgorithm_v7)
REFUSED(cudnnGetConvolutionBackwardDataWorkspaceSize)
REFUSED(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount)
REFUSED(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
REFUSED(cudnnGetConvolutionBackwardFilterWorkspaceSize)
REFUSED(cudnnGetConvolutionForwardAlgorithmMaxCount)
REFUSED(cudnnGetConvolutionForwardAlgorithm_v7)
REFUSED(cudnnGetConvolutionForwardWorkspaceSize)
REFUSED(cudnnGetMultiHeadAttnBuffers)
REFUSED(cudnnGetMultiHeadAttnWeights)
REFUSED(cudnnGetNormalizationBackwardWorkspaceSize)
REFUSED(cudnnGetNormalizationForwardTrainingWorkspaceSize)
REFUSED(cudnnGetNormalizationTrainingReserveSpaceSize)
REFUSED(cudnnGetRNNTempSpaceSizes)
REFUSED(cudnnGetRNNWeightParams)
REFUSED(cudnnGetRNNWeightSpaceSize)
REFUSED(cudnnGetReductionIndicesSize)
REFUSED(cudnnGetReductionWorkspaceSize)
REFUSED(cudnnIm2Col)
REFUSED(cudnnLRNCrossChannelBackward)
REFUSED(cudnnLRNCrossChannelForward)
REFUSED(cudnnMakeFusedOpsPlan)
REFUSED(cudnnMultiHeadAttnBackwardData)
REFUSED(cudnnMultiHeadAttnBackwardWeights)
REFUSED(cudnnMultiHeadAttnForward)
REFUSED(cudnnNormalizationBackward)
REFUSED(cudnnNormalizationForwardInference)
REFUSED(cudnnNormalizationForwardTraining)
REFUSED(cudnnOpTensor)
REFUSED(cudnnPoolingBackward)
REFUSED(cudnnPoolingForward)
REFUSED(cudnnRNNBackwardData_v8)
REFUSED(cudnnRNNBackwardWeights_v8)
REFUSED(cudnnRNNForward)
REFUSED(cudnnReduceTensor)
REFUSED(cudnnReorderFilterAndBias)
REFUSED(cudnnScaleTensor)
REFUSED(cudnnSetTensor)
REFUSED(cudnnSoftmaxBackward)
REFUSED(cudnnSoftmaxForward)
REFUSED(cudnnSpatialTfGridGeneratorBackward)
REFUSED(cudnnSpatialTfGridGeneratorForward)
REFUSED(cudnnSpatialTfSamplerBackward)
REFUSED(cudnnSpatialTfSamplerForward)
REFUSED(cudnnTransformFilter)
REFUSED(cudnnTransformTensor)
REFUSED(cudnnTransformTensorEx)

#undef REFUSED

}  // namespace emulator::cudnn
