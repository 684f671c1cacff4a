// litgpt's YAML. Keys: litgpt v0.5.13, finetune/lora.py and finetune/full.py, setup;
// litgpt/args.py, TrainArgs. What they refuse: finetune/lora.py, validate_args.
#include <fmt/format.h>

#include <iterator>

#include "export_target.hpp"
#include "flavors.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::advise::exports {
namespace {

std::string quantize(const Setting& s) {
  switch (s.c.adapters.quantize) {
    case Quantization::none:
      return "";
    case Quantization::nf4:
      return "quantize: bnb.nf4\n";
    case Quantization::nf4_double:
      return "quantize: bnb.nf4-dq\n";
    case Quantization::int8:
      break;
  }
  s.refuse("--quantize int8", "bnb.int8-training is not planned; use --quantize nf4");
}

std::string lora(const Setting& s) {
  const Adapters& a = s.c.adapters;
  std::string text = fmt::format("{}lora_r: {}\nlora_alpha: {}\nlora_dropout: {}\n", quantize(s),
                                 a.rank, 2 * a.rank, decimal(a.dropout));
  for (std::size_t i = 0; i < std::size(passes::litgpt_names); ++i)
    text += fmt::format("lora_{}: {}\n", passes::litgpt_names[i],
                        passes::adapts(s.c, static_cast<passes::LitgptTarget>(i)));
  return text;
}

/// Beside --quantize it makes a PagedAdamW of an AdamW.
std::string optimizer(const Setting& s) {
  switch (s.c.optimizer.kind) {
    case Optimizer::adamw_foreach:
    case Optimizer::paged_adamw:
      return "optimizer: AdamW\n";
    case Optimizer::adamw:
      return "optimizer:\n  class_path: torch.optim.AdamW\n  init_args:\n    fused: true\n";
    case Optimizer::sgd:
      return "optimizer:\n  class_path: torch.optim.SGD\n  init_args:\n    fused: true\n";
    case Optimizer::sgd_momentum:
      return "optimizer:\n  class_path: torch.optim.SGD\n  init_args:\n    momentum: 0.9\n";
    default:
      s.refuse(std::string("--optimizer ") + to_option(s.c.optimizer.kind),
               "it makes a class of torch.optim; use --optimizer adamw");
  }
}

/// The Hub's name of a model of these sizes in litgpt/config.py, which litgpt downloads by itself.
std::string checkpoint(const Setting& s) {
  if (const Flavor* flavor = find_flavor(s.target.name, s.model)) return flavor->name;
  const std::string nearest = nearest_flavor(s.target.name, s.model);
  s.refuse("model " + s.quoted_name(),
           (nearest.empty() ? "litgpt/config.py has none of family " + s.model.family : nearest) +
               "; export to hf");
}

void write(const Setting& s, ExportResult& out) {
  if (!s.c.litgpt())
    s.refuse("--transformer-impl hf",
             "its layers, adapters and loss are its own; plan with --framework litgpt");
  const bool adapted = s.c.adapters.used();
  out.text = fmt::format(
      "checkpoint_dir: {}\nprecision: bf16-true\ndevices: 1\n{}train:\n  global_batch_size: {}\n"
      "  micro_batch_size: {}\n  max_seq_length: {}\n  epochs: 1\n{}",
      checkpoint(s), adapted ? lora(s) : "", s.global_batch(), s.c.run.batch, s.c.run.seq,
      optimizer(s));
  out.notes.push_back(fmt::format("run with litgpt {} --config FILE.yaml",
                                  adapted ? "finetune_lora" : "finetune_full"));
  out.notes.emplace_back(
      "checkpoint_dir is the first of litgpt's models with these sizes, which it downloads; "
      "another "
      "is the folder that litgpt download has made of it; a batch is padded to its longest "
      "sequence, the plan's is of max_seq_length tokens; validation generates besides");
}

constexpr std::string_view says[] = {"batch",    "seq",       "grad_accum",      "world",
                                     "lora",     "adapter",   "lora_targets",    "lora_dropout",
                                     "quantize", "optimizer", "transformer_impl"};

}  // namespace

const Target litgpt{"litgpt", "litgpt 0.5.13", write, says};

}  // namespace ac_advisor::advise::exports
