// The words of the command line, one table a type; reading and printing both use it.
#pragma once

#include "ac_advisor/model/step_config.hpp"
#include "options_parse.hpp"

namespace ac_advisor::options {

inline constexpr Choice<Task> tasks[] = {{"sft", Task::sft},
                                         {"dpo", Task::dpo},
                                         {"orpo", Task::orpo},
                                         {"simpo", Task::simpo},
                                         {"reward", Task::reward},
                                         {"grpo", Task::grpo},
                                         {"kto", Task::kto},
                                         {"rloo", Task::rloo},
                                         {"ppo", Task::ppo},
                                         {"distillation", Task::distillation},
                                         {"distill", Task::distillation, false}};
inline constexpr Choice<Rollout> plain_rollouts[] = {{"generate", Rollout::generate},
                                                     {"served", Rollout::served}};
inline constexpr Choice<Reference> references[] = {{"model", Reference::model},
                                                   {"adapter", Reference::adapter},
                                                   {"precomputed", Reference::precomputed},
                                                   {"none", Reference::none}};
inline constexpr Choice<Parked> parkings[] = {
    {"none", Parked::none}, {"optimizer", Parked::optimizer}, {"all", Parked::all}};
inline constexpr Choice<AcScope> scopes[] = {{"block", AcScope::block},
                                             {"submodule", AcScope::submodule}};
inline constexpr Choice<Kernels> kernels[] = {
    {"eager", Kernels::eager}, {"fused", Kernels::fused}, {"compiled", Kernels::compiled}};
inline constexpr Choice<CompileUnit> compile_units[] = {{"block", CompileUnit::block},
                                                        {"model", CompileUnit::model}};
inline constexpr Choice<Optimizer> optimizers[] = {
    {"adamw", Optimizer::adamw},
    {"adamw-foreach", Optimizer::adamw_foreach},
    {"sgd", Optimizer::sgd},
    {"sgd-momentum", Optimizer::sgd_momentum},
    {"adamw-8bit", Optimizer::adamw_8bit},
    {"paged-adamw", Optimizer::paged_adamw},
    {"paged-adamw-8bit", Optimizer::paged_adamw_8bit},
    {"adamw-8bit-torchao", Optimizer::adamw_8bit_torchao},
    {"adafactor", Optimizer::adafactor},
    {"lion", Optimizer::lion},
    {"muon", Optimizer::muon}};
inline constexpr Choice<CudaGraph> cuda_graphs[] = {
    {"off", CudaGraph::off}, {"step", CudaGraph::step}, {"segments", CudaGraph::segments}};
inline constexpr Choice<Offload> offloads[] = {{"none", Offload::none},
                                               {"activations", Offload::activations},
                                               {"parameters", Offload::parameters},
                                               {"optimizer", Offload::optimizer},
                                               {"gradients", Offload::gradients}};
inline constexpr Choice<Fp8Recipe> fp8_recipes[] = {{"none", Fp8Recipe::none},
                                                    {"tensorwise", Fp8Recipe::tensorwise},
                                                    {"rowwise", Fp8Recipe::rowwise},
                                                    {"delayed", Fp8Recipe::delayed},
                                                    {"mx", Fp8Recipe::mx}};
inline constexpr Choice<Attention> attentions[] = {
    {"auto", Attention::automatic},      {"flash", Attention::flash}, {"cudnn", Attention::cudnn},
    {"efficient", Attention::efficient}, {"math", Attention::math},   {"eager", Attention::eager},
    {"flash1", Attention::flash1}};
void apply_cublas_workspace(const Given& given, StepConfig& config);
std::string cublas_workspace_text(const StepConfig& config);

inline constexpr Choice<TransformerImpl> transformer_impls[] = {
    {"hf", TransformerImpl::hf},
    {"transformer_engine", TransformerImpl::transformer_engine},
    {"local", TransformerImpl::local},
    {"litgpt", TransformerImpl::litgpt},
    {"torchtitan", TransformerImpl::torchtitan},
    {"torchtune", TransformerImpl::torchtune}};
inline constexpr Choice<bool> bitsandbytes_versions[] = {{"0.50", false}, {"0.41", true}};
inline constexpr Choice<DType> dtypes[] = {
    {"bf16", DType::bf16}, {"fp16", DType::f16}, {"fp32", DType::f32}};
inline constexpr Choice<DType> adapter_dtypes[] = {{"bf16", DType::bf16}, {"fp32", DType::f32}};
inline constexpr Choice<Quantization> quantizations[] = {{"none", Quantization::none},
                                                         {"nf4", Quantization::nf4},
                                                         {"nf4-double", Quantization::nf4_double},
                                                         {"int8", Quantization::int8}};
inline constexpr Choice<InputGrads> input_grads[] = {
    {"auto", InputGrads::automatic}, {"on", InputGrads::on}, {"off", InputGrads::off}};
inline constexpr Choice<RouterLoss> router_losses[] = {
    {"auto", RouterLoss::automatic}, {"on", RouterLoss::on}, {"off", RouterLoss::off}};
inline constexpr Choice<CpMethod> cp_methods[] = {{"allgather", CpMethod::all_gather},
                                                  {"alltoall", CpMethod::all_to_all},
                                                  {"ulysses", CpMethod::ulysses}};

inline constexpr Choice<FsdpUnit> fsdp_units[] = {{"block", FsdpUnit::block},
                                                  {"segment", FsdpUnit::segment},
                                                  {"torchtitan", FsdpUnit::torchtitan},
                                                  {"accelerate", FsdpUnit::accelerate},
                                                  {"verl", FsdpUnit::verl}};
inline constexpr Choice<BackwardPrefetch> backward_prefetches[] = {
    {"pre", BackwardPrefetch::pre},
    {"post", BackwardPrefetch::post},
    {"none", BackwardPrefetch::none}};
inline constexpr Choice<bool> held_untils[] = {{"next-forward", true}, {"backward", false}};
inline constexpr std::string_view reshard_words[] = {"true", "false", "N"};
inline constexpr Choice<bool> output_dtypes[] = {{"bf16", false}, {"fp32", true}};
inline constexpr std::string_view autocast_words[] = {"none", "bf16", "fp16"};
inline constexpr Choice<TorchVersion> torches[] = {{"2.11", TorchVersion::v2_11},
                                                   {"2.15", TorchVersion::v2_15}};
inline constexpr Choice<bool> alloc_confs[] = {{"expandable_segments:True", true},
                                               {"expandable_segments:False", false}};

/// How a mode's argument is written, where it has one.
enum class Argument : std::uint8_t { none, count, size, share, parts };

struct AcWord {
  std::string_view text;
  AcMode mode;
  Argument argument = Argument::none;
};
inline constexpr AcWord ac_words[] = {{"none", AcMode::none},
                                      {"full", AcMode::full},
                                      {"selective", AcMode::selective},
                                      {"attention", AcMode::attention},
                                      {"grouped", AcMode::grouped, Argument::count},
                                      {"every", AcMode::every, Argument::count},
                                      {"first", AcMode::first, Argument::count},
                                      {"modules", AcMode::modules, Argument::parts},
                                      {"sqrt", AcMode::sqrt},
                                      {"budget", AcMode::budget, Argument::size},
                                      {"memory-budget", AcMode::memory_budget, Argument::share}};

/// In the order of Megatron-core's transformer_config.py.
inline constexpr Choice<LayerPart> layer_parts[] = {{"core_attn", LayerPart::core_attn},
                                                    {"moe_act", LayerPart::moe_act},
                                                    {"layernorm", LayerPart::layernorm},
                                                    {"mla_up_proj", LayerPart::mla_up_proj},
                                                    {"mlp", LayerPart::mlp},
                                                    {"moe", LayerPart::moe},
                                                    {"shared_experts", LayerPart::shared_experts}};

inline constexpr Choice<Runtime> runtimes[] = {{"pytorch", Runtime::pytorch},
                                               {"ac-trainer", Runtime::ac_trainer}};

inline constexpr std::string_view ac_mode_words[] = {
    "none",    "full",          "selective", "attention",   "grouped:K",      "every:K",
    "first:N", "modules:PARTS", "sqrt",      "budget:SIZE", "memory-budget:F"};
inline constexpr std::string_view shard_words[] = {"none",  "ddp",   "zero1", "zero2",
                                                   "zero3", "fsdp2", "fsdp1", "hsdp:N"};
inline constexpr std::string_view loss_words[] = {
    "ce", "ce-no-upcast", "ce-compiled", "lc-ce", "tiled", "chunked:TOKENS", "chunked-logits:N"};

inline constexpr std::string_view pp_schedule_words[] = {"1f1b",  "gpipe", "interleaved:V", "zb1",
                                                         "zb1:V", "zbv",   "dualpipev"};
inline constexpr std::string_view compression_words[] = {"none", "bf16", "fp16", "topk:RATIO",
                                                         "powersgd:RANK"};
inline constexpr std::string_view adapter_words[] = {"none",
                                                     "ia3",
                                                     "ln-tuning",
                                                     "prompt-tuning:TOKENS",
                                                     "p-tuning:TOKENS",
                                                     "prefix-tuning:TOKENS",
                                                     "trainable-tokens:N",
                                                     "loha:RANK",
                                                     "lokr:RANK",
                                                     "lokr:RANK:FACTOR",
                                                     "vera:RANK",
                                                     "miss:RANK",
                                                     "miss:RANK:MINI",
                                                     "oft:BLOCK",
                                                     "road:VARIANT",
                                                     "adalora:RANK",
                                                     "glora:RANK",
                                                     "delora:RANK"};
inline constexpr std::string_view rollout_words[] = {"generate", "vllm:SHARE",
                                                     "vllm:tpN,util=SHARE,sleep=LEVEL", "served"};
inline constexpr std::string_view cp_rank_words[] = {"usual", "R"};
inline constexpr std::string_view pp_rank_words[] = {"highest", "R"};

/// These change several fields at once.
void apply_ac(const Given& given, StepConfig& config);
void apply_loss(const Given& given, StepConfig& config);
void apply_shard(const Given& given, StepConfig& config);
/// "vllm:0.3", "vllm:tp2,util=0.3,sleep=1": who, and of an engine beside the trainer its share of
/// the device, the ranks that share its layers and how it sleeps.
void apply_rollout(const Given& given, StepConfig& config);
void apply_compression(const Given& given, StepConfig& config);
void apply_pp_schedule(const Given& given, StepConfig& config);
/// Whether, and in which compute dtype.
void apply_autocast(const Given& given, StepConfig& config);
/// "6,6,5": blocks of each stage.
void apply_pp_layers(const Given& given, StepConfig& config);
void apply_image_pixels(const Given& given, StepConfig& config);
void apply_freeze(const Given& given, StepConfig& config);
void apply_cp_rank(const Given& given, StepConfig& config);
[[nodiscard]] std::string cp_rank_text(const StepConfig& config);
/// "true", "false" or a number of ranks.
void apply_reshard(const Given& given, StepConfig& config);
[[nodiscard]] std::string reshard_text(const StepConfig& config);
void apply_pp_rank(const Given& given, StepConfig& config);
[[nodiscard]] std::string pp_rank_text(const StepConfig& config);
/// "loha:8": a method of PEFT's, and its number.
void apply_adapter(const Given& given, StepConfig& config);
/// "q_proj,v_proj" or "all-linear".
void apply_lora_targets(const Given& given, StepConfig& config);
/// "none full full": a mode a block, without arguments.
void apply_block_modes(const Given& given, StepConfig& config);
[[nodiscard]] std::string block_modes_text(const StepConfig& config);

/// A value that is asked for often enough to deserve its own reason: refuses it.
void refuse_unsupported(const Given& given);

}  // namespace ac_advisor::options
