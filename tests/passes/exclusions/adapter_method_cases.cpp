// Refused: PEFT's other methods.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--adapter METHOD --lora RANK",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::loha, 8);
       c.adapters.rank = 16;
     },
     "--adapter loha:8 --lora 16"},
    {"--adapter METHOD --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       sharded(c, Sharding::zero2);
     },
     "--shard zero2"},
    {"--adapter METHOD, --lora-dropout, --dora or --lora-dtype bf16",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.adapters.dora = true;
     },
     "--adapter ia3 --dora"},
    {"--adapter METHOD of no linear layers --lora-targets",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::prompt_tuning, 20);
       c.adapters.targets = "q_proj";
     },
     "--adapter prompt-tuning:20 --lora-targets q_proj"},
    {"--adapter ln-tuning, a family of whose norms PEFT knows no names",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::ln_tuning);
       m.family = "gpt_neox";
     },
     "--adapter ln-tuning for gpt_neox"},
    {"--adapter METHOD other than ia3, layers whose weights are [in, out]",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::lokr, 8);
       m.input_first = true;
     },
     "other methods over transformers' Conv1D "},
    {"--adapter METHOD, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       with_delta_nets(m);
       m.family = "qwen3_5_text";
       by(c, AdapterMethod::lokr, 8);
       c.adapters.targets = "all-linear";
     },
     "--adapter lokr:8 for qwen3_5_text"},
    {"--adapter glora:RANK, layers with biases",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::glora, 8);
       m.qkv_bias = true;
     },
     "its terms of a bias are not planned"},
    {"--adapter oft:BLOCK, a layer of whose inputs BLOCK is no divisor",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::oft, 24); }, "--adapter oft:24 for llama"},
    {"--adapter road:VARIANT other than 1 and 2",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::road, 4); }, "road_4 is not planned"},
    {"--adapter road:VARIANT, a layer whose outputs are no groups of 64",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::road, 1); },  // v: 32
     "--adapter road:1 for llama"},
    {"--adapter miss:RANK:MINI, a layer of whose outputs MINI is no divisor",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::miss, 16);
       c.adapters.factor = 64;
     },
     "--adapter miss:16:64 for llama"},
    {"--adapter trainable-tokens:N, more than the vocabulary has",
     [](auto&, StepConfig& c) { by(c, AdapterMethod::trainable_tokens, 513); },
     "--adapter trainable-tokens:513"},
    {"--adapter prefix-tuning:TOKENS, --ac other than none",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::prefix_tuning, 30);
       c.memory.ac = AcMode::full;
     },
     "--adapter prefix-tuning:30 --ac full"},
    {"--adapter prefix-tuning:TOKENS, sliding windows, scores with a bias, learned positions, or "
     "attention other than auto and flash",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::prefix_tuning, 30);
       c.run.attention = Attention::eager;
     },
     "keys of a cache beside such scores are n"},
    {"--adapter prefix-tuning:TOKENS, more than 32 blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       by(c, AdapterMethod::prefix_tuning, 30);
       m.layers = 33;
     },
     "plan fewer layers"},
    {"--adapter METHOD --cuda-graph",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "its captures are not planned"},
    {"--adapter METHOD --framework torchtune",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.runtime.framework = "torchtune";
     },
     "torchtune has LoRA"},
    {"--adapter METHOD, ac-trainer",
     [](auto&, StepConfig& c) {
       by(c, AdapterMethod::ia3);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--adapter ia3, ac-trainer"},
};

}  // namespace

std::span<const Case> adapter_method_cases() { return cases; }

}  // namespace ac_advisor::test
