// The words that people bring from the tools that they train with.
#include "option_words.hpp"

#include <algorithm>
#include <iterator>

namespace ac_advisor::options {
namespace {

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
    {"--gradient-checkpointing", "--ac", "full"},
    {"--activation-checkpointing", "--ac", "full"},
    {"--checkpointing", "--ac", "full"},
    {"--recompute", "--ac", "full"},
    {"--zero", "--shard", {}, "zero"},
    {"--zero-stage", "--shard", {}, "zero"},
    {"--mixed-precision", "--autocast"},
    {"--amp", "--autocast"},
    {"--lora-r", "--lora"},
    {"--lora-rank", "--lora"},
    {"--load-in-4bit", "--quantize", "nf4"},
    {"--load-in-8bit", "--quantize", "int8"},
    {"--attn-implementation", "--attn"},
    {"--attention", "--attn"},
    {"--flash-attention", "--attn", "flash"},
    {"--flash-attn", "--attn", "flash"},
    {"--optim", "--optimizer"},
    {"--torch-compile", "--kernels", "compiled"},
    {"--compile", "--kernels", "compiled"},
    {"--max-grad-norm", "--clip-grad"},
    {"--device", "--gpu"},
    {"--hardware", "--gpu"},
    {"--bf16",
     {},
     {},
     {},
     "it means either --autocast bf16 (fp32 weights, as Trainer's bf16=True) or --param-dtype bf16 "
     "(bf16 weights)"},
    {"--fp16",
     {},
     {},
     {},
     "use --autocast fp16 (fp32 weights, scaled loss, as Trainer's fp16=True)"},
    {"--dtype", {}, {}, {}, "use --param-dtype for the weights, --autocast for mixed precision"},
    {"--precision",
     {},
     {},
     {},
     "use --param-dtype for the weights, --autocast for mixed precision"},
    {"--nodes",
     {},
     {},
     {},
     "use --world with the GPUs of all nodes (4 nodes of 8: --world 32); --node-size if a node "
     "does "
     "not have 8"},
    {"--num-nodes",
     {},
     {},
     {},
     "use --world with the GPUs of all nodes (4 nodes of 8: --world 32); --node-size if a node "
     "does "
     "not have 8"},
    {"--nnodes",
     {},
     {},
     {},
     "use --world with the GPUs of all nodes (4 nodes of 8: --world 32); --node-size if a node "
     "does "
     "not have 8"},
    {"--qlora", {}, {}, {}, "use --lora 16 --quantize nf4"},
    {"--fsdp", {}, {}, {}, "use --shard fsdp2 (fully_shard), or fsdp1 (FullyShardedDataParallel)"},
    {"--ddp", "--shard", "ddp"},
    {"--deepspeed", {}, {}, {}, "use --framework deepspeed --shard zero2, or zero3"},
    {"--cpu-offload", {}, {}, {}, "use --offload parameters, optimizer, gradients or activations"},
    {"--memory", {}, {}, {}, "use --gpu NAME (see ac-advisor devices)"},
    {"--vram", {}, {}, {}, "use --gpu NAME (see ac-advisor devices)"},
    {"--gpu-memory", {}, {}, {}, "use --gpu NAME (see ac-advisor devices)"},
    {"--model", {}, {}, {}, "give MODEL without an option: ac-advisor plan llama-3.2-1b"},
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
