// Refused: what a model is declared of.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--batch N", [](auto&, StepConfig& c) { c.run.batch = 0; }, "--batch 0"},
    {"--seq N", [](auto&, StepConfig& c) { c.run.seq = -1; }, "--seq -1"},
    {"--grad-accum N", [](auto&, StepConfig& c) { c.run.grad_accum = 0; }, "--grad-accum 0"},
    {"--world N", [](auto&, StepConfig& c) { c.layout.world = 0; }, "--world 0"},
    {"--batch B --seq S", [](auto&, StepConfig& c) { c.run.batch = c.run.seq = 1 << 16; },
     "--batch 65536 --seq 65536"},
    {"MODEL of more than 4096 blocks", [](model::ModelSpec& m, auto&) { m.layers = 5000; },
     "num_hidden_layers 5000: at most 4096"},
    {"--compute-dtype fp32 --param-dtype bf16 or fp16",
     [](auto&, StepConfig& c) { c.precision.compute_dtype = DType::f32; }, "--param-dtype fp32"},
    {"--autocast, --shard other than none or ddp",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 8;
     },
     "--autocast bf16 --shard fsdp2"},
    {"--autocast --compute-dtype fp32",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "drop one of them"},
    {"--autocast, --loss lc-ce or chunked:TOKENS",
     [](auto&, StepConfig& c) {
       c.precision.autocast = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "--autocast bf16 --loss lc-ce"},
    {"--autocast, a mixture of experts",
     [](model::ModelSpec& m, StepConfig& c) {
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
       m.moe.emplace();
     },
     "grouped products"},
    {"--param-dtype fp32 --compute-dtype bf16 or fp16, neither fsdp1, fsdp2 nor hsdp:N",
     [](auto&, StepConfig& c) { c.precision.param_dtype = DType::f32; },
     "--shard fsdp1, fsdp2 or hsdp:N"},
    {"--seq N, a model with a table of positions",
     [](model::ModelSpec& m, StepConfig& c) {
       m.max_positions = 16;
       m.position_table = 16;
       c.run.seq = 17;
     },
     "--seq 17 of 16 positions"},
    {"--autocast, NemotronLayerNorm1P",
     [](model::ModelSpec& m, StepConfig& c) {
       m.norm = model::Norm::layer_plus_one;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "add --autocast none"},
    {"--images N, a model without an encoder of images",
     [](auto&, StepConfig& c) { c.run.images = 1; }, "the configuration has none"},
    {"--images N, SigLIP (gemma3)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "siglip_vision_model";
     },
     "tokens of one image see each other"},
    {"--images N, Pixtral (mistral3)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "pixtral";
     },
     "masks between images"},
    {"--images N, the encoder of llama4",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "llama4_vision_model";
     },
     "how it runs"},
    {"--images N, the encoder of qwen3_5",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->encoder = "qwen3_5_vision";
     },
     "how it runs"},
    {"--images N, CLIP otherwise than LLaVA-1.5 runs it",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.tower->run.reset();
     },
     "one layer's features"},
    {"--images N, qwen2_5_vl and qwen3_vl with another activation, windows or DeepStack's layers",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image_of_any_size(m, c);
       m.tower->run.reset();
     },
     "the activation of their configuration class"},
    {"--images N, an encoder of images of any size, without --image-pixels",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image_of_any_size(m, c);
       c.run.image_height = c.run.image_width = 0;
     },
     "as many tokens as it has merged patches"},
    {"--image-pixels, an encoder of images of one size",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.image_height = c.run.image_width = 8;
     },
     "--image-pixels 8x8 for"},
    {"--image-pixels, a side more than 200 times the other",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image_of_any_size(m, c);
       c.run.image_width = 16 * 201;
     },
     "--image-pixels 16x3216: its processor refuses"},
    {"--images N, more tokens than --seq",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.images = c.run.seq / 4 + 1;
     },
     "of 4 tokens, --seq"},
    {"--images N, more than 4096 of a micro-batch, or 16 Mi patches",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image_of_any_size(m, c);
       c.run.batch = 4097;
     },
     "--images 1 --batch 4097"},
    {"--freeze tower,projector,decoder",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.frozen = {true, true, true};
     },
     "nothing is trained then"},
    {"--freeze decoder, a model without an encoder of images",
     [](auto&, StepConfig& c) {
       c.adapters.rank = 16;
       c.run.frozen.decoder = true;
     },
     "--freeze decoder"},
    {"--freeze decoder --loss other than ce",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.frozen.decoder = true;
       c.memory.loss = LossKind::chunked;
       c.memory.chunk_tokens = 64;
     },
     "--freeze decoder --loss chunked:64"},
    {"--tower-ac --ac-reentrant, CLIP (llava)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.memory.ac = AcMode::full;
       c.memory.tower_ac = c.memory.reentrant = true;
     },
     "reentrant checkpoints of it"},
    {"--images N --shard other than none and ddp",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image_of_any_size(m, c);
       sharded(c, Sharding::fsdp2);
     },
     "--images 1 --shard fsdp2"},
    {"--images N --shard ddp, CLIP (llava)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       sharded(c, Sharding::ddp);
     },
     "without gradients"},
    {"--images N --lora or --quantize, CLIP (llava)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       m.family = "llama";
       c.adapters.rank = 8;
     },
     "of encoders of images of any size"},
    {"--images N, --adapter METHOD, --dora, --kbit-prepare, --quantize int8 or a loss other than "
     "ce",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image_of_any_size(m, c);
       m.family = "llama";
       c.adapters.rank = 8;
       c.memory.loss = LossKind::chunked;
       c.memory.chunk_tokens = 64;
     },
     "LoRA is planned beside"},
    {"--images N --autocast, CLIP (llava)",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "--images 1 --autocast bf16"},
    {"--images N --attn eager or math",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.run.attention = Attention::eager;
     },
     "--images 1 --attn eager"},
    {"--images N --optimizer-in-backward or --kernels fused",
     [](model::ModelSpec& m, StepConfig& c) {
       with_image(m, c);
       c.optimizer.in_backward = true;
     },
     "neither is planned beside an encoder"},
    {"--ac budget:SIZE", [](auto&, StepConfig& c) { c.memory.ac = AcMode::budget; },
     "the size must be positive"},
    {"--ac first:N or modules:PARTS, --transformer-impl hf",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::first;
       c.memory.ac_arg = 2;
     },
     "--recompute-method block"},
    {"--ac grouped:K, --ac every:K", [](auto&, StepConfig& c) { c.memory.ac = AcMode::every; },
     "--ac every:0: K must be at least 1"},
    {"--ac grouped:K or every:K, K above the model's blocks",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::grouped;
       c.memory.ac_arg = 5;
     },
     "--ac grouped:5 of 4 blocks"},
    {"--ac-scope submodule, --ac neither full nor every:K",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::sqrt;
       c.memory.scope = AcScope::submodule;
     },
     "name their own regions"},
    {"--framework automodel --ac selective --shard ddp",
     [](auto&, StepConfig& c) {
       c.runtime.framework = "automodel";
       c.memory.ac = AcMode::selective;
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
     },
     "--force"},
    {"--ac selective, a model that shares keys and values between blocks",
     [](model::ModelSpec& m, StepConfig& c) {
       m.kv_sharing = true;
       c.memory.ac = AcMode::selective;
     },
     "--ac full --ac-scope submodule"},
};

}  // namespace

std::span<const Case> declare_cases() { return cases; }

}  // namespace ac_advisor::test
