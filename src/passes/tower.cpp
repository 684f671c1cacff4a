// The pass that puts an encoder beside the decoder where no images are planned: the parameters of
// one that does not run. Also what is refused of steps with images.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ac_advisor/model/image_size.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/adapters/quantized_weight.hpp"
#include "passes/adapters/targets.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool always(const StepConfig&) { return true; }

/// What an encoder's tensors are beside a decoder that runs without it: resident, whole or this
/// rank's shards, without gradients and optimizer states (an optimizer of PyTorch's makes no states
/// for a gradient of None).
class Encoder {
 public:
  Encoder(StepProgram& step, const ModelSpec& spec, const StepConfig& config)
      : step_(step), spec_(spec), config_(config) {}

  void write() {
    for (const model::TensorGroup& group : spec_.tower->groups)
      for (std::int64_t n = 0; n < group.times; ++n) {
        for (const std::vector<std::int64_t>& shape : group.shapes)
          parameter(ir::Shape(std::span(shape)));
        for (const model::EncoderLinear& layer : group.linears) linear(layer);
      }
  }

 private:
  void make(std::int64_t numel, DType dtype) {
    step_.resident.push_back(
        step_.program.make({numel}, dtype, ir::Role::parameter, {-1, ir::Module::vision_tower}));
  }
  void parameter(const ir::Shape& shape, DType dtype) {
    const std::int64_t ranks = config_.layout.gathers() ? fsdp_shards(config_) : 1;
    make(fsdp_shard_numel(shape, ranks), dtype);  // fully_shard pads dim 0
  }
  void parameter(const ir::Shape& shape) { parameter(shape, config_.precision.param_dtype); }
  void whole(const std::optional<QuantizedWeight::Stored>& stored) {
    if (stored) make(stored->shape.numel(), stored->dtype);
  }

  void linear(const model::EncoderLinear& layer) {
    if (config_.adapters.quantize == Quantization::none) {
      parameter(ir::Shape{layer.out, layer.in});
    } else {
      const QuantizedWeight kept = quantized_weight(config_, layer.in, layer.out);
      parameter(kept.weight.shape, kept.weight.dtype);
      for (const auto& state :
           {kept.code_book, std::optional(kept.scales), kept.nested, kept.offset})
        whole(state);
    }
    if (layer.bias) parameter(ir::Shape{layer.out});
    if (config_.adapters.of_another_method() || !adapts(spec_, config_, layer)) return;
    const std::int64_t rank = config_.adapters.rank;
    const DType type = lora_dtype(config_);
    parameter({rank, layer.in}, type);
    parameter({layer.out, rank}, type);
    if (config_.adapters.dora) parameter({layer.out}, type);
  }

  StepProgram& step_;
  const ModelSpec& spec_;
  const StepConfig& config_;
};

void run(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  if (spec.tower && config.run.images == 0) Encoder(step, spec, config).write();
}

bool with_images(const StepConfig& c) { return c.run.images > 0; }
std::string images(const StepConfig& c) { return "--images " + std::to_string(c.run.images); }
std::string images_of_model(const ModelSpec& m, const StepConfig& c) {
  return images(c) + " for " + m.family + (m.tower ? " with " + m.tower->encoder : std::string());
}
bool has_size(const ModelSpec& m, const StepConfig& c) {
  return with_images(c) && m.tower && m.tower->run &&
         (!m.tower->run->any_size() || c.run.image_height > 0);
}
bool takes_any_size(const ModelSpec& m, const StepConfig& c) {
  return with_images(c) && m.tower && m.tower->run && m.tower->run->any_size();
}
bool adapted(const StepConfig& c) {
  return with_images(c) && (c.adapters.used() || c.adapters.quantize != Quantization::none);
}
bool encoder_is(const ModelSpec& m, std::string_view name) {
  return m.tower && m.tower->encoder.starts_with(name);
}

constexpr Exclusion exclusions_of_tower[] = {
    {"--images N, a model without an encoder of images",
     "images go through an encoder beside the decoder, and the configuration has none",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) { return with_images(c) && !m.tower; },
     images_of_model},
    {"--images N, SigLIP (gemma3)",
     "tokens of one image see each other, by masks that are not planned yet", "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && encoder_is(m, "siglip");
     },
     images_of_model},
    {"--images N, Pixtral (mistral3)",
     "its masks between images, and its merger, are not planned yet", "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && encoder_is(m, "pixtral");
     },
     images_of_model},
    {"--images N, the encoder of llama4", "how it runs is not planned yet", "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && encoder_is(m, "llama4");
     },
     images_of_model},
    {"--images N, CLIP otherwise than LLaVA-1.5 runs it",
     "one layer's features are planned, of an encoder with quick_gelu or gelu and without dropout, "
     "and a projector with biases and gelu",
     "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && encoder_is(m, "clip") && !m.tower->run;
     },
     images_of_model},
    {"--images N, the encoder of qwen3_5", "how it runs is not planned yet", "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && encoder_is(m, "qwen3_5");
     },
     images_of_model},
    {"--images N, qwen2_5_vl and qwen3_vl with another activation, windows or DeepStack's layers",
     "the activation of their configuration class is planned, windows of at least one merged patch "
     "and DeepStack's layers in order",
     "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && encoder_is(m, "qwen") && !encoder_is(m, "qwen3_5") && !m.tower->run;
     },
     images_of_model},
    {"--images N, an encoder of images of any size, without --image-pixels",
     "an image takes as many tokens as it has merged patches",
     "give its height and width in pixels, such as --image-pixels 448x672",
     [](const ModelSpec& m, const StepConfig& c) {
       return takes_any_size(m, c) && c.run.image_height == 0;
     },
     images_of_model},
    {"--image-pixels, an encoder of images of one size", "the processor resizes each to it",
     "leave --image-pixels out",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && m.tower && m.tower->run && !m.tower->run->any_size() &&
              c.run.image_height > 0;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--image-pixels " + image_pixels_text(c) + " for " + m.family + ", of " +
              std::to_string(m.tower->run->image) + " pixels a side";
     }},
    {"--image-pixels, a side more than 200 times the other", "its processor refuses such an image",
     "give a height and a width nearer to each other",
     [](const ModelSpec& m, const StepConfig& c) {
       const auto [least, most] = std::minmax(c.run.image_height, c.run.image_width);
       return takes_any_size(m, c) && most > 200 * least;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--image-pixels " + image_pixels_text(c);
     }},
    {"--images N, more tokens than --seq",
     "the tokens of a sequence's images are among its own, for qwen2_5_vl and qwen3_vl each "
     "between "
     "two of text",
     "give a larger --seq, fewer images or smaller ones",
     [](const ModelSpec& m, const StepConfig& c) {
       return has_size(m, c) && model::image_tokens_of_sequence(*m.tower->run, c.run) > c.run.seq;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return images(c) + " of " + std::to_string(model::image_tokens(*m.tower->run, c.run)) +
              " tokens, --seq " + std::to_string(c.run.seq);
     }},
    {"--images N, more than 4096 of a micro-batch, or 16 Mi patches",
     "each is an attention of its own in each layer; so many are not planned",
     "use a smaller --batch, or fewer images",
     [](const ModelSpec& m, const StepConfig& c) {
       constexpr std::int64_t most_attentions = 4096, most_patches = 1 << 24;
       const std::int64_t count = ir::checked_mul(c.run.images, c.run.batch);
       return takes_any_size(m, c) && c.run.image_height > 0 &&
              (count > most_attentions ||
               ir::checked_mul(count, model::image_grid(*m.tower->run, c.run).patches()) >
                   most_patches);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return images(c) + " --batch " + std::to_string(c.run.batch);
     }},
    {"--freeze tower,projector,decoder", "nothing is trained then", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return with_images(c) && c.run.frozen.tower && c.run.frozen.projector &&
              c.run.frozen.decoder;
     }},
    {"--freeze decoder, a model without an encoder of images", "nothing is trained then",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) { return !m.tower && c.run.frozen.decoder; }},
    {"--freeze decoder --loss other than ce",
     "what other losses make of a frozen head is not planned yet", "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       return with_images(c) && c.run.frozen.decoder && c.memory.loss != LossKind::ce;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--freeze " + freeze_text(c) + " --loss " + loss_option(c);
     }},
    {"--tower-ac --ac-reentrant, CLIP (llava)", "reentrant checkpoints of it are not planned yet",
     "use --no-ac-reentrant, or --no-tower-ac",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && m.tower && !takes_any_size(m, c) && c.memory.tower_ac &&
              c.memory.reentrant;
     }},
    {"--images N --shard other than none and ddp", "units of the encoder are not planned yet",
     "use --shard none or ddp, or --images 0",
     [](const ModelSpec&, const StepConfig& c) {
       return with_images(c) && c.layout.shard != Sharding::none && c.layout.shard != Sharding::ddp;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return images(c) + " --shard " + shard_option(c);
     }},
    {"--images N --shard ddp, CLIP (llava)",
     "DistributedDataParallel refuses its parameters without gradients",
     "use --shard none, or --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && m.tower && !takes_any_size(m, c) && c.layout.shard == Sharding::ddp;
     },
     images_of_model},
    {"--images N --lora or --quantize, CLIP (llava)",
     "adapters and quantized layers are planned of encoders of images of any size",
     "use --images 0",
     [](const ModelSpec& m, const StepConfig& c) {
       return adapted(c) && m.tower && !takes_any_size(m, c);
     },
     [](const ModelSpec&, const StepConfig& c) { return images(c); }},
    {"--images N, --adapter METHOD, --dora, --kbit-prepare, --quantize int8 or a loss other than "
     "ce",
     "LoRA is planned beside an encoder that runs, over a base in bf16, nf4 or nf4-double",
     "use --lora RANK without them, or --images 0",
     [](const ModelSpec&, const StepConfig& c) {
       return adapted(c) &&
              (c.adapters.of_another_method() || c.adapters.dora || c.adapters.kbit_prepare ||
               c.adapters.quantize == Quantization::int8 || c.memory.loss != LossKind::ce);
     },
     [](const ModelSpec&, const StepConfig& c) { return images(c); }},
    {"--images N --autocast, CLIP (llava)", "what autocast casts of it is not planned yet",
     "add --autocast none",
     [](const ModelSpec& m, const StepConfig& c) {
       return with_images(c) && m.tower && !takes_any_size(m, c) && c.precision.autocast;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return images(c) + " --autocast " + autocast_option(c);
     }},
    {"--images N --attn eager or math",
     "the encoder's attention by plain products is not planned yet", "use --attn auto",
     [](const ModelSpec&, const StepConfig& c) {
       return with_images(c) &&
              (c.run.attention == Attention::eager || c.run.attention == Attention::math);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return images(c) + (c.run.attention == Attention::eager ? " --attn eager" : " --attn math");
     }},
    {"--images N --optimizer-in-backward or --kernels fused",
     "neither is planned beside an encoder that runs", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return with_images(c) && (c.optimizer.in_backward || c.memory.kernels == Kernels::fused);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return images(c) +
              (c.optimizer.in_backward ? " --optimizer-in-backward" : " --kernels fused");
     }},
};

}  // namespace

extern const Pass tower_pass;
const Pass tower_pass{
    "tower",         Stage::before, "parameters of an image encoder that does not run",
    always,          run,           exclusions_of_tower,
    Of::transformers};

}  // namespace ac_advisor::passes
