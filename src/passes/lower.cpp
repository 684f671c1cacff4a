// The pass that writes a micro-batch's forward and loss, and what attention and losses refuse.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

constexpr std::int64_t most_chunks = 65536;

std::string chunked_option(const ModelSpec&, const StepConfig& c) {
  return "--loss chunked:" + std::to_string(c.memory.chunk_tokens);
}

constexpr Exclusion exclusions_of_lower[] = {
    {"--loss chunked:TOKENS", "a chunk has between 1 and 2147483648 tokens",
     "give a size such as chunked:1024",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::chunked &&
              (c.memory.chunk_tokens < 1 || c.memory.chunk_tokens > std::int64_t{1} << 31);
     },
     chunked_option},
    {"--loss chunked:TOKENS --batch B --seq S", "more than 65536 chunks", "use larger ones",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss == LossKind::chunked &&
              c.run.batch * c.run.seq / c.memory.chunk_tokens > most_chunks;
     },
     chunked_option},
    {"--loss lc-ce or chunked:TOKENS, an LM head with a bias", "these losses have none",
     "use --loss ce",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.head_bias &&
              (c.memory.loss == LossKind::lc_ce || c.memory.loss == LossKind::chunked);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--loss " + loss_option(c) + " for " + m.family;
     }},
    {"--output-dtype fp32, a loss other than ce or ce-no-upcast",
     "it is the logits that are cast, and there are none", "use --loss ce, or leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.wide_output &&
              (c.memory.loss == LossKind::lc_ce || c.memory.loss == LossKind::chunked);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--output-dtype fp32 --loss " + loss_option(c);
     }},
    {"--dropout P", "a probability of at least 0 and below 1", "give one, such as 0.1",
     [](const ModelSpec&, const StepConfig& c) {
       return !(c.run.dropout >= 0.0 && c.run.dropout < 1.0);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--dropout " + std::to_string(c.run.dropout);
     }},
    {"--attn efficient, --attn math", "not planned yet, their kernels save other tensors",
     "use flash, eager or auto",
     [](const ModelSpec&, const StepConfig& c) {
       return c.run.attention == Attention::efficient || c.run.attention == Attention::math;
     }},
    {"--attn flash or cudnn, where scores are soft-capped",
     "transformers computes soft-capped scores with eager attention only",
     "use --attn eager or auto",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.eager_attention_only && c.run.attention != Attention::automatic &&
              c.run.attention != Attention::eager;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return std::string("--attn ") + to_option(c.run.attention) + " for " + m.family;
     }},
};

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  step.graph_held.clear();
  // What the loop holds of the micro-batch before, until now.
  if (config.memory.hold_output && !step.outputs.empty())
    step.program.emit(ir::OpKind::hold, ir::Phase::forward, {-1, ir::Module::root}, step.outputs,
                      std::vector<ir::ValueId>{});
  Lowering(spec, config, step).forward();
  step.losses.push_back(step.loss);
}

}  // namespace

extern const Pass lower_pass;
const Pass lower_pass{"lower",
                      Stage::micro_batch,
                      "forward and loss, op by op, as transformers launches them",
                      always,
                      run,
                      exclusions_of_lower,
                      Of::configuration};

}  // namespace ac_advisor::passes
