// The words that people bring from the tools that they train with.
#include "option_words.hpp"

#include <algorithm>
#include <iterator>

namespace ac_advisor::options {
namespace {

constexpr std::string_view all_nodes =
                               "use --world with the GPUs of all nodes (4 nodes of 8: --world 32); "
                               "--node-size if a node does not have 8",
                           a_gpu = "use --gpu NAME (see ac-advisor devices)",
                           two_types =
                               "use --param-dtype for the weights, --autocast for mixed precision",
                           recomputed =
                               "use --ac full or grouped:K (full, uniform), first:N (full, block) "
                               "or modules:PARTS (selective)";

constexpr Elsewhere table[] = {
    {"--batch-size", "--batch"},
    {"--micro-batch-size", "--batch"},
    {"--micro-batch", "--batch"},
    {"--mbs", "--batch"},
    {"--local-batch-size", "--batch"},
    {"--train-batch-size", "--batch"},
    {"--per-device-train-batch-size", "--batch"},
    {"--per-device-batch-size", "--batch"},
    {"--global-batch-size", "--global-batch"},
    {"--gbs", "--global-batch"},
    {"--seq-len", "--seq"},
    {"--seq-length", "--seq"},
    {"--seqlen", "--seq"},
    {"--sequence-length", "--seq"},
    {"--sequence-len", "--seq"},
    {"--max-length", "--seq"},
    {"--max-seq-length", "--seq"},
    {"--max-seq-len", "--seq"},
    {"--context-length", "--seq"},
    {"--block-size", "--seq"},
    {"--cutoff-len", "--seq"},
    {"--gradient-accumulation-steps", "--grad-accum"},
    {"--gradient-accumulation", "--grad-accum"},
    {"--grad-accum-steps", "--grad-accum"},
    {"--grad-acc", "--grad-accum"},
    {"--world-size", "--world"},
    {"--num-gpus", "--world"},
    {"--n-gpus", "--world"},
    {"--ngpus", "--world"},
    {"--gpus", "--world"},
    {"--num-processes", "--world"},
    {"--tensor-parallel", "--tp"},
    {"--tensor-parallel-size", "--tp"},
    {"--tensor-model-parallel-size", "--tp"},
    {"--tp-size", "--tp"},
    {"--pipeline-parallel", "--pp"},
    {"--pipeline-parallel-size", "--pp"},
    {"--pipeline-model-parallel-size", "--pp"},
    {"--pp-size", "--pp"},
    {"--context-parallel", "--cp"},
    {"--context-parallel-size", "--cp"},
    {"--cp-size", "--cp"},
    {"--expert-parallel", "--ep"},
    {"--expert-parallel-size", "--ep"},
    {"--expert-model-parallel-size", "--ep"},
    {"--ep-size", "--ep"},
    {.there = "--gradient-checkpointing", .here = "--ac", .value = "full", .off = "none"},
    {.there = "--activation-checkpointing", .here = "--ac", .value = "full", .off = "none"},
    {.there = "--checkpointing", .here = "--ac", .value = "full", .off = "none"},
    {.there = "--recompute", .here = "--ac", .value = "full", .off = "none"},
    {.there = "--recompute-activations", .here = "--ac", .value = "attention"},
    {.there = "--recompute-granularity", .way_out = recomputed},
    {.there = "--recompute-method", .way_out = recomputed},
    {.there = "--recompute-num-layers", .way_out = recomputed},
    {.there = "--recompute-modules", .way_out = "use --ac modules:PARTS, with + between them"},
    {.there = "--zero", .here = "--shard", .before = "zero"},
    {.there = "--zero-stage", .here = "--shard", .before = "zero"},
    {"--mixed-precision", "--autocast"},
    {"--amp", "--autocast"},
    {"--lora-r", "--lora"},
    {"--lora-rank", "--lora"},
    {.there = "--load-in-4bit", .here = "--quantize", .value = "nf4", .off = "none"},
    {.there = "--load-in-8bit", .here = "--quantize", .value = "int8", .off = "none"},
    {"--attn-implementation", "--attn"},
    {"--attention", "--attn"},
    {.there = "--flash-attention", .here = "--attn", .value = "flash"},
    {.there = "--flash-attn", .here = "--attn", .value = "flash"},
    {"--optim", "--optimizer"},
    {.there = "--torch-compile", .here = "--kernels", .value = "compiled", .off = "eager"},
    {.there = "--compile", .here = "--kernels", .value = "compiled", .off = "eager"},
    {"--max-grad-norm", "--clip-grad"},
    {"--device", "--gpu"},
    {"--hardware", "--gpu"},
    {.there = "--bf16",
     .way_out = "it means either --autocast bf16 (fp32 weights, as Trainer's bf16=True) or "
                "--param-dtype bf16 (bf16 weights)"},
    {.there = "--fp16",
     .way_out = "use --autocast fp16 (fp32 weights, scaled loss, as Trainer's fp16=True)"},
    {.there = "--dtype", .way_out = two_types},
    {.there = "--precision", .way_out = two_types},
    {.there = "--nodes", .way_out = all_nodes},
    {.there = "--num-nodes", .way_out = all_nodes},
    {.there = "--nnodes", .way_out = all_nodes},
    {.there = "--qlora", .way_out = "use --lora 16 --quantize nf4"},
    {.there = "--fsdp",
     .way_out = "use --shard fsdp2 (fully_shard), or fsdp1 (FullyShardedDataParallel)"},
    {.there = "--ddp", .here = "--shard", .value = "ddp"},
    {.there = "--deepspeed", .way_out = "use --framework deepspeed --shard zero2, or zero3"},
    {.there = "--cpu-offload",
     .way_out = "use --offload parameters, optimizer, gradients or activations"},
    {.there = "--freeze-vit", .way_out = "use --freeze tower"},
    {.there = "--freeze-vision-tower", .way_out = "use --freeze tower"},
    {.there = "--freeze-aligner", .way_out = "use --freeze projector"},
    {.there = "--freeze-multi-modal-projector", .way_out = "use --freeze projector"},
    {.there = "--freeze-llm", .way_out = "use --freeze decoder"},
    {.there = "--freeze-language-model", .way_out = "use --freeze decoder"},
    {.there = "--vit-gradient-checkpointing", .way_out = "use --tower-ac"},
    {.there = "--max-pixels", .way_out = "use --image-pixels HxW, the size that it leaves"},
    {.there = "--memory", .way_out = a_gpu},
    {.there = "--vram", .way_out = a_gpu},
    {.there = "--gpu-memory", .way_out = a_gpu},
};

}  // namespace

std::span<const Elsewhere> elsewhere() { return table; }

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

const Elsewhere* find_elsewhere(std::string_view name) {
  const std::string dashed = with_dashes(name);
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const Elsewhere& e) { return e.there == dashed; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace ac_advisor::options
