// Real PyTorch steps on the emulated device (emulated_peaks.py) against the plan of the same step.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/simulate/reserved.hpp"
#include "peaks.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

/// Whose memory: PyTorch's phases, each with the profile's that it holds.
const std::map<std::string, std::vector<std::size_t>> phases{
    {"forward", {0}}, {"loss", {1}}, {"backward", {2}}, {"optimizer", {4}}};

/// Shares of PyTorch's figure, in percent.
class Errors {
 public:
  void add(std::int64_t planned, std::int64_t counted, const std::string& label) {
    const auto off = static_cast<double>(planned - counted) / static_cast<double>(counted) * 100;
    all_.push_back(std::abs(off));
    if (all_.back() < worst_) return;
    worst_ = all_.back();
    label_ =
        label + ": planned " + std::to_string(planned) + ", PyTorch " + std::to_string(counted);
  }
  [[nodiscard]] double worst() const { return worst_; }
  [[nodiscard]] double quantile(double share) const {
    std::vector<double> sorted = all_;
    std::sort(sorted.begin(), sorted.end());
    const double at = share * static_cast<double>(sorted.size());
    return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] std::size_t count() const { return all_.size(); }
  [[nodiscard]] std::ptrdiff_t above(double percent) const {
    return std::count_if(all_.begin(), all_.end(), [&](double error) { return error > percent; });
  }
  [[nodiscard]] double median() const { return quantile(0.5); }
  [[nodiscard]] std::string text() const {
    return "median " + std::to_string(median()) + " %, worst " + std::to_string(worst()) + " % (" +
           label_ + ")";
  }

 private:
  std::vector<double> all_;
  double worst_ = 0;
  std::string label_;
};

struct Compared {
  Errors allocated, tiny_allocated, reserved, phases, launches, second_steps, pinned;
};

/// Of the step in which DistributedDataParallel makes its buckets anew.
std::int64_t rebuilding_peak(const model::ModelSpec& model, const StepConfig& config) {
  const passes::StepProgram step = passes::build_step(model, config);
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  simulate::MemoryModel gpu;
  gpu.target.sm_count = device.sm_count;
  gpu.target.compute_capability = device.compute_capability;
  gpu.cublas_workspace =
      2 * device.cublas_workspace_bytes;  // of the forward's thread, of autograd's
  return simulate::walk_allocator(step, passes::make_schedule(step), gpu, 2, false).rebuilding_peak;
}

void compare(const json& entry, const model::ModelSpec& model, Compared& all) {
  const json& step = entry.at("case");
  const std::string label = step.dump();
  const StepConfig config = resolve_options(options_of_case(step));
  const profile::Profile p = advise::plan(model, config, false);
  if (entry.contains("host_pinned"))
    all.pinned.add(p.memory.host_pinned, entry.at("host_pinned"), label);
  const bool tiny = step.at("model").get<std::string>().starts_with("tiny_");
  (tiny ? all.tiny_allocated : all.allocated)
      .add(p.memory.peak_allocated, entry.at("peak_allocated"), label);
  all.reserved.add(p.memory.peak_reserved, entry.at("peak_reserved"), label);
  if (entry.contains("second_step_peak")) {
    const bool in_first =
        config.run.grad_accum > 1 && !config.layout.no_sync;  // its second reduction
    all.second_steps.add(rebuilding_peak(model, config),
                         entry.at(in_first ? "first_step_peak" : "second_step_peak"), label);
  }
  const json by_phase = entry.value("allocated", json::object());  // none of a Trainer's step
  for (const auto& [name, indices] : phases)
    if (by_phase.value(name, std::int64_t{0}) != 0)  // a stage without a loss
      all.phases.add(p.memory.peak_by_phase[indices.front()], by_phase.at(name),
                     name + " of " + label);
  if (entry.contains("trainable")) CHECK(p.trainable_parameters == entry.at("trainable"));
  std::int64_t counted = 0;
  for (const json& phase : entry.at("launches"))
    for (const json& kind : phase) counted += kind.get<std::int64_t>();
  const auto& planned = p.kernels.launches;
  all.launches.add(std::accumulate(planned.begin(), planned.end(), std::int64_t{0}), counted,
                   label);
}

Compared compared(const std::string& file) {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/" + file);
  REQUIRE(stream);
  const json document = json::parse(stream);
  std::map<std::string, model::ModelSpec> models;
  for (const auto& [name, config] : document.at("models").items())
    models.emplace(name, model::parse_config(config.dump(), name, name));
  Compared all;
  for (const json& entry : document.at("cases"))
    compare(entry, models.at(entry.at("case").at("model")), all);
  MESSAGE(file, ": ", document.at("cases").size(), " cases; allocated: ", all.allocated.text());
  MESSAGE("reserved: ", all.reserved.text());
  MESSAGE("phases: ", all.phases.text());
  MESSAGE("ddp's second step: ", all.second_steps.text());
  MESSAGE("launches: ", all.launches.text());
  return all;
}

}  // namespace

TEST_CASE("plans meet what PyTorch's own counters say on the emulated device") {
  const Compared all = compared("emulated_peaks.json");
  CHECK(all.allocated.median() <= 0.001);
  // Foreach AdamW over a tower that runs, by 16 of the 42 MB that PyTorch's blocks are larger there
  // than what was asked for; one of gpt2 by 0.8 MB.
  CHECK(all.allocated.above(0.05) <= 3);
  CHECK(all.allocated.worst() <= 0.12);
  CHECK(all.second_steps.worst() <= 0.1);
  CHECK(all.tiny_allocated.worst() <= 0.1);  // of 80 MB: experts' scratch
  CHECK(all.reserved.median() <= 0.001);
  CHECK(all.reserved.worst() <= 3.1);  // 2 MiB of 69, of tiny models
  CHECK(all.reserved.above(1.6) <= 3);
  CHECK(all.phases.worst() <= 1);
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.worst() <= 1.2);
}

TEST_CASE("plans of steps that a generator drew meet PyTorch's on the emulated device") {
  const Compared all = compared("drawn_peaks.json");
  CHECK(all.allocated.count() >= 160);
  CHECK(all.allocated.worst() <= 0.04);
  CHECK(all.reserved.median() <= 0.001);
  CHECK(all.reserved.above(1) <= 2);
  CHECK(all.reserved.worst() <= 1.7);
  CHECK(all.phases.worst() <= 1);
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.worst() <= 1.3);
}

TEST_CASE("plans of steps drawn from more options meet PyTorch's on the emulated device") {
  const Compared all = compared("wide_peaks.json");
  CHECK(all.allocated.count() + all.tiny_allocated.count() >= 240);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.allocated.worst() <= 0.07);  // gpt2's, by a block
  CHECK(all.second_steps.worst() <= 6);  // where it is the first step's second micro-batch
  CHECK(all.reserved.median() <= 0.0001);
  CHECK(all.reserved.above(1) <= 2);
  CHECK(all.reserved.worst() <= 1.8);
  CHECK(all.phases.worst() <= 1);
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.above(1) <= 6);
  CHECK(all.launches.worst() <= 2);
}

TEST_CASE("plans of fine-tuning steps that a generator drew meet PyTorch's and the Trainers'") {
  const Compared all = compared("drawn_finetune_peaks.json");
  CHECK(all.allocated.count() >= 100);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.allocated.above(0.2) <= 1);  // packed rows in TRL's Trainer, an LM head with a bias
  CHECK(all.allocated.worst() <= 0.7);
  CHECK(all.reserved.median() <= 0.0001);
  CHECK(all.reserved.above(2) <= 5);  // three of quantized bases, two of packed rows
  CHECK(all.reserved.worst() <= 8);
  CHECK(all.phases.worst() <= 1);
  CHECK(all.launches.median() <= 0.5);
  CHECK(all.launches.above(2) <= 8);
  CHECK(all.launches.worst() <= 7.5);  // DoRA over NF4
}

TEST_CASE("plans of a second, blind draw of fine-tuning steps meet PyTorch's and the Trainers'") {
  const Compared all = compared("blind_finetune_peaks.json");
  CHECK(all.allocated.count() >= 100);
  CHECK(all.allocated.median() <= 0.001);
  CHECK(all.allocated.above(0.5) <= 2);  // ZeRO 3 with adapters, packed rows under selective
  CHECK(all.allocated.worst() <= 0.75);
  CHECK(all.reserved.median() <= 0.0001);
  CHECK(all.reserved.above(2) <= 5);
  CHECK(all.reserved.worst() <= 13);  // a whole model under ZeRO 3
  CHECK(all.launches.median() <= 0.3);
  CHECK(all.launches.above(2) <= 11);
  CHECK(all.launches.worst() <= 4.8);
}

TEST_CASE("steps in fp16 with a gradient scaler meet PyTorch's on the emulated device") {
  const Compared all = compared("fp16_peaks.json");
  CHECK(all.allocated.count() >= 40);
  // A small model under autocast, in bf16 as in fp16: 3 MB of 700, of blocks that are longer than
  // what was asked for.
  CHECK(all.allocated.worst() <= 0.6);
  CHECK(all.allocated.above(0.1) <= 3);
  CHECK(all.reserved.worst() <= 2);
  CHECK(all.phases.worst() <= 1);
  CHECK(all.launches.worst() <= 2);
}

TEST_CASE("torchao's float8 layers meet torchao's own steps on the emulated device") {
  const Compared all = compared("float8_peaks.json");
  CHECK(all.allocated.count() >= 169);
  CHECK(all.allocated.median() <= 0.0001);
  // A small model under autocast: 7 MB of 1 GB, of blocks that are longer than what was asked for.
  CHECK(all.allocated.above(0.02) <= 3);
  CHECK(all.allocated.worst() <= 0.75);
  CHECK(all.reserved.above(0.1) <= 3);
  CHECK(all.reserved.worst() <= 0.65);
  CHECK(all.phases.worst() <= 1.6);
  CHECK(all.launches.median() <= 0.01);
  CHECK(all.launches.worst() <= 0.5);
}

TEST_CASE("pipeline ranks of torchao's float8 layers meet torchao's on the emulated device") {
  const Compared all = compared("float8_pp_peaks.json");
  CHECK(all.allocated.count() >= 54);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.allocated.worst() <= 0.2);  // 2 MB, of ranks that share layers
  CHECK(all.reserved.worst() <= 9);     // not explained
  CHECK(all.phases.worst() <= 0.3);
  CHECK(all.launches.worst() <= 0.4);
}

TEST_CASE(
    "torchao's float8 layers under tensor parallelism meet torchao's on the emulated device") {
  const Compared all = compared("float8_tp_peaks.json");
  CHECK(all.allocated.count() >= 29);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.allocated.worst() <= 0.1);
  CHECK(all.reserved.worst() <= 10.5);  // not explained
  CHECK(all.phases.worst() <= 0.7);
  CHECK(all.launches.worst() <= 0.2);
}

TEST_CASE("torchao's MX layers meet torchao's own steps on the emulated B200") {
  const Compared all = compared("mx_peaks.json");
  CHECK(all.allocated.count() >= 70);
  CHECK(all.allocated.above(0) <= 1);  // gemma3, whose windows on a B200 are planned as on an H100
  CHECK(all.allocated.worst() <= 0.02);
  CHECK(all.reserved.worst() <= 0.0001);
  CHECK(all.phases.worst() <= 1);
  CHECK(all.launches.above(0) <= 2);  // gemma3 and InternLM 2, by as many in bf16
  CHECK(all.launches.worst() <= 0.7);
}

TEST_CASE("compiled blocks of torchao's layers meet torchao's own on the emulated device") {
  const Compared all = compared("float8_compile_peaks.json");
  CHECK(all.allocated.count() >= 76);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.allocated.above(0.02) <= 2);  // a small model, and Mistral with full checkpoints
  CHECK(all.allocated.worst() <= 0.51);
  // A small model; phi3's and InternLM 2's fused projections with full checkpoints, as in bf16.
  CHECK(all.reserved.above(1.9) <= 3);
  CHECK(all.reserved.worst() <= 12);
  CHECK(all.phases.worst() <= 0.51);
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.worst() <= 2.2);
}

TEST_CASE("compiled blocks of pipeline ranks meet PyTorch's on the emulated device") {
  const Compared all = compared("compile_pp_peaks.json");
  CHECK(all.allocated.count() >= 36);
  CHECK(all.allocated.above(0.0001) <= 2);  // first stages in fp8
  CHECK(all.allocated.worst() <= 0.5);
  CHECK(all.reserved.worst() <= 0.7);
  CHECK(all.phases.worst() <= 0.6);
  // Clipped: 46 launches of the optimizer's phase, for a reason that was not found.
  CHECK(all.launches.above(0.9) <= 2);
  CHECK(all.launches.worst() <= 11);
}

TEST_CASE("compiled blocks of ranks that share layers meet PyTorch's on the emulated device") {
  const Compared all = compared("compile_tp_peaks.json");
  CHECK(all.allocated.count() >= 42);
  CHECK(all.allocated.worst() <= 0.02);
  // Selective steps of two ranks, and one in fp8: a block is found free or not.
  CHECK(all.reserved.above(2.4) <= 4);
  CHECK(all.reserved.worst() <= 10.8);
  CHECK(all.phases.worst() <= 0.15);
  // Rowwise: 16 kernels a block of the backward, for a reason that was not found.
  CHECK(all.launches.above(0.9) <= 6);
  CHECK(all.launches.worst() <= 7.5);
}

TEST_CASE("flat parameters meet FullyShardedDataParallel's on the emulated device") {
  const Compared all = compared("fsdp1_peaks.json");
  CHECK(all.allocated.count() >= 78);
  CHECK(all.allocated.worst() <= 0.001);
  CHECK(all.tiny_allocated.worst() <= 0.02);  // gpt2's scratch
  CHECK(all.reserved.above(0.02) <= 4);
  CHECK(all.reserved.worst() <= 0.4);  // a block is found free or not
  // With few ranks and checkpoints PyTorch's forward begins with its highest moment: the gradients
  // of the step before live until the root's forward has begun.
  CHECK(all.phases.above(0.03) <= 4);
  CHECK(all.phases.worst() <= 9.1);
  CHECK(all.launches.worst() <= 0.07);
}

TEST_CASE("shards on the host meet FSDP2's CPUOffloadPolicy on the emulated device") {
  const Compared all = compared("host_offload_peaks.json");
  CHECK(all.allocated.count() >= 66);
  CHECK(all.allocated.worst() <= 0.001);
  CHECK(all.reserved.worst() <= 0.001);
  CHECK(all.phases.worst() <= 0.05);
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.worst() <= 2.5);  // a mixture of experts
  CHECK(all.pinned.count() >= 5);
  CHECK(all.pinned.worst() <= 0.2);
}

TEST_CASE("fp32 masters, and states on the host, meet PyTorch's on the emulated device") {
  const Compared all = compared("optimizer_peaks.json");
  CHECK(all.allocated.count() >= 95);
  // A small model in fp32 with the optimizer on the host, by 1 MiB.
  CHECK(all.allocated.worst() <= 0.12);
  CHECK(all.allocated.above(0.01) <= 1);
  CHECK(all.reserved.worst() <= 0.02);
  CHECK(all.phases.worst() <= 1);
  // Those of FusedAdam's kernels were not seen.
  CHECK(all.launches.median() <= 0.6);
  CHECK(all.pinned.count() >= 5);
  CHECK(all.pinned.worst() <= 0.001);
}

TEST_CASE("adapters over a base that FSDP2 shards meet PyTorch's on the emulated device") {
  const Compared all = compared("peft_peaks.json");
  CHECK(all.allocated.count() >= 84);
  CHECK(all.allocated.worst() <= 0.2);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.reserved.worst() <= 3);
  CHECK(all.phases.worst() <= 0.5);
  CHECK(all.launches.median() <= 2);
  CHECK(all.launches.worst() <= 6);  // small experts' sums, and double quantization's scales
}

TEST_CASE("PEFT's other methods than LoRA are met on the emulated device") {
  const Compared all = compared("peft_methods_peaks.json");
  CHECK(all.allocated.count() >= 224);
  // A prefix' keys and values, some of whose blocks PyTorch's allocator does not split.
  CHECK(all.allocated.worst() <= 0.05);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.reserved.above(0.5) <= 2);
  CHECK(all.phases.worst() <= 0.1);
  CHECK(all.launches.median() <= 0.01);
  // LayerNorms of layers that are not first; AdaLoRA's in-place sum with what a bias makes a view.
  CHECK(all.launches.worst() <= 5.1);
}

TEST_CASE("torchtune's loop around transformers' layers is met on the emulated device") {
  const Compared all = compared("torchtune_peaks.json");
  CHECK(all.allocated.count() >= 61);
  // Offloaded activations: of a small model by 2 MB of 0.4 GB, of mistral's adapters by 17 of 2.9
  // GB; all else within 0.03.
  CHECK(all.allocated.above(0.03) <= 3);
  CHECK(all.allocated.worst() <= 0.6);
  CHECK(all.reserved.above(0.7) <= 3);
  CHECK(all.reserved.worst() <= 2.3);
  CHECK(all.phases.worst() <= 0.7);
  CHECK(all.launches.worst() <= 2.5);
}

TEST_CASE("torchtune's compiled layers and chunks of the loss are met on the emulated device") {
  const Compared all = compared("torchtune_compile_peaks.json");
  CHECK(all.allocated.count() >= 31);
  // torchtune's checkpoints are around compiled layers, the plan's inside them: 5 to 12 MB of a
  // small model with full checkpoints, in three steps.
  CHECK(all.allocated.above(0.1) <= 3);
  CHECK(all.allocated.worst() <= 6.3);
  CHECK(all.allocated.median() <= 0.02);
  CHECK(all.reserved.above(4) <= 3);
  CHECK(all.reserved.worst() <= 6.4);
  CHECK(all.launches.median() <= 10);
}

TEST_CASE("PEFT's adapters in compiled blocks meet PyTorch's on the emulated device") {
  const Compared all = compared("adapter_compile_peaks.json");
  CHECK(all.allocated.count() >= 24);
  CHECK(all.allocated.worst() <= 0.02);
  CHECK(all.phases.worst() <= 0.1);
  CHECK(all.reserved.above(4) <= 2);  // one block more than PyTorch reserves
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.worst() <= 4.3);  // norms after an adapted layer
}

TEST_CASE("litgpt's own layers, adapters and loss are met on the emulated device") {
  const Compared all = compared("litgpt_peaks.json");
  CHECK(all.allocated.count() >= 48);
  CHECK(all.allocated.median() <= 0.001);
  // Layers in 4 bits were quantized in turn, so their blocks are longer than what was asked for.
  CHECK(all.allocated.worst() <= 0.27);
  // In 4 bits, where the embedding's gradient finds a free block of its size or not.
  CHECK(all.reserved.above(1.7) <= 4);
  CHECK(all.reserved.worst() <= 11);
  CHECK(all.phases.worst() <= 0.7);
  CHECK(all.launches.median() <= 0.3);
  CHECK(all.launches.above(2) <= 6);  // of one sequence, not explained
  CHECK(all.launches.worst() <= 2.8);
}

TEST_CASE("torchtune's own layers are met on the emulated device") {
  const Compared all = compared("torchtune_layers_peaks.json");
  CHECK(all.allocated.count() >= 8);
  // A small model with full checkpoints, by 1.6 MB of 387; all else within 0.07.
  CHECK(all.allocated.above(0.07) <= 2);
  CHECK(all.allocated.worst() <= 0.41);
  CHECK(all.reserved.above(0.5) <= 2);
  CHECK(all.reserved.worst() <= 3.2);  // a block of a small model is found free or not
  CHECK(all.launches.worst() <= 2.3);
}

TEST_CASE("TorchTitan's own layers, loop and pipelines are met on the emulated device") {
  const Compared all = compared("torchtitan_peaks.json");
  CHECK(all.allocated.count() >= 15);
  CHECK(all.allocated.median() <= 0.0001);
  CHECK(all.allocated.worst() <= 0.22);  // selective in a ring, Qwen3
  CHECK(all.reserved.above(0.3) <= 1);
  CHECK(all.reserved.worst() <= 11);
  CHECK(all.launches.worst() <= 5.5);  // a zero-bubble rank
}

TEST_CASE("attention that is neither cuDNN's nor flash meets PyTorch's on the emulated device") {
  const Compared all = compared("attention_peaks.json");
  CHECK(all.allocated.count() >= 115);
  CHECK(all.allocated.worst() <= 0.03);
  CHECK(all.reserved.worst() <= 0.2);
  CHECK(all.phases.worst() <= 2);  // forward under ddp, whose peak is in backward
  CHECK(all.launches.worst() <= 2);
}

TEST_CASE("compressed gradients meet PyTorch's hooks on the emulated device") {
  const Compared all = compared("compression_peaks.json");
  CHECK(all.allocated.count() >= 29);
  CHECK(all.allocated.worst() <= 0.3);
  // The largest elements' blocks, which are found free or not, and PowerSGD's of one model.
  CHECK(all.reserved.above(3) <= 13);
  CHECK(all.reserved.worst() <= 11.5);
  // torch.topk's own passes are planned as one kernel and what sorts.
  CHECK(all.launches.above(2) <= 10);
  CHECK(all.launches.worst() <= 29);
}

TEST_CASE("steps of packed documents meet PyTorch's on the emulated device") {
  const Compared all = compared("packing_peaks.json");
  CHECK(all.allocated.count() >= 125);
  CHECK(all.allocated.worst() <= 0.05);
  // Of one a block is found free or not.
  CHECK(all.reserved.above(1) <= 1);
  CHECK(all.reserved.worst() <= 2.1);
  CHECK(all.phases.worst() <= 0.05);
  // With a mask, cuDNN's backward launches two kernels a block more.
  CHECK(all.launches.median() <= 0.001);
  CHECK(all.launches.worst() <= 2);
}

TEST_CASE("batches that carry position_ids meet PyTorch's on the emulated device") {
  const Compared all = compared("position_peaks.json");
  CHECK(all.allocated.count() >= 29);
  CHECK(all.allocated.worst() <= 0.01);
  // Of one, under autocast with checkpoints, a block of 4 GB is found free or not.
  CHECK(all.reserved.above(0.01) <= 1);
  CHECK(all.reserved.worst() <= 18);
  CHECK(all.phases.worst() <= 0.1);
  CHECK(all.launches.worst() <= 0.7);
}

TEST_CASE("ranks that share experts meet transformers' all-to-all on the emulated device") {
  const Compared all = compared("ep_peaks.json");
  CHECK(all.allocated.count() >= 40);
  // Of sizes that no power of two divides, by a block that is longer than what was asked for.
  CHECK(all.allocated.above(0.002) <= 3);
  CHECK(all.allocated.worst() <= 0.015);
  CHECK(all.tiny_allocated.worst() <= 0.001);
  CHECK(all.reserved.above(0.011) <= 1);
  CHECK(all.reserved.worst() <= 0.4);
  CHECK(all.phases.worst() <= 0.5);
  CHECK(all.launches.worst() <= 0.07);
}

TEST_CASE("pipeline ranks meet torch.distributed.pipelining's on the emulated device") {
  const Compared all = compared("pp_peaks.json");
  CHECK(all.allocated.count() >= 400);
  CHECK(all.allocated.worst() <= 0.07);  // a zero-bubble rank of Gemma 3, by 9 MB of 13.6 GB
  CHECK(all.allocated.above(0.05) <= 1);
  // Under FSDP2 a block of an embedding's gradient is found free or not; Llama-3.1-8B's middle
  // stage reserves as much less clipped as not.
  CHECK(all.reserved.worst() <= 4.5);
  CHECK(all.reserved.above(3.0) <= 4);
  CHECK(all.phases.worst() <= 2);
  CHECK(all.launches.median() <= 0.5);
  CHECK(all.launches.worst() <= 2);
}

TEST_CASE("ranks that share sequences meet PyTorch's ring attention on the emulated device") {
  const Compared all = compared("cp_peaks.json");
  CHECK(all.allocated.count() >= 100);
  CHECK(all.allocated.worst() == 0);
  CHECK(all.reserved.above(0.05) <= 1);  // keys and values that go from rank to rank
  CHECK(all.reserved.worst() <= 6);
  CHECK(all.phases.worst() <= 0.05);
  CHECK(all.launches.worst() == 0);
}

TEST_CASE("ranks that share sequences meet DeepSpeed's Ulysses on the emulated device") {
  const Compared all = compared("ulysses_peaks.json");
  CHECK(all.allocated.count() >= 56);
  CHECK(all.allocated.worst() == 0);
  CHECK(all.reserved.worst() <= 0.01);
  CHECK(all.phases.worst() <= 0.05);
  // Of one sequence a copy of positions is not counted, of tiny heads flash attention's second
  // kernel.
  CHECK(all.launches.above(0.2) <= 2);
  CHECK(all.launches.worst() <= 1);
}

TEST_CASE("ranks that share sequences and layers meet both of PyTorch's on the emulated device") {
  const Compared all = compared("cp_tp_peaks.json");
  CHECK(all.allocated.count() >= 34);
  CHECK(all.allocated.worst() <= 0.25);
  // Keys and values that go from rank to rank, and logits' shards, are found free, or not.
  CHECK(all.reserved.above(2) <= 3);
  CHECK(all.reserved.worst() <= 10);
  CHECK(all.phases.worst() <= 0.5);
  CHECK(all.launches.worst() <= 0.6);
}

TEST_CASE("tensor parallelism meets DTensor's on the emulated device") {
  const Compared all = compared("tp_peaks.json");
  CHECK(all.allocated.count() >= 199);
  CHECK(all.allocated.worst() <= 0.5);
  CHECK(all.tiny_allocated.worst() <= 0.5);
  CHECK(all.reserved.worst() <= 13);
  // In five a block as large as the logits, or the embedding's gradient, is found free, or not.
  CHECK(all.reserved.above(3.0) <= 5);
  // A part of the hidden state lives on while norm and head, a unit of their own, are gathered.
  CHECK(all.phases.worst() <= 1.5);
  CHECK(all.launches.worst() <= 2);
}

TEST_CASE("Megatron-core's ranks meet megatron-core 0.16's own steps on the emulated device") {
  const Compared all = compared("megatron_peaks.json");
  CHECK(all.allocated.count() >= 146);
  CHECK(all.allocated.median() <= 0.12);
  // Middle stages, by tensors of one message; blocks that PyTorch does not split; recomputed
  // layers, of which Megatron-core's function holds the output and its gradient to the end: 44 MiB
  // of 5.8 GB.
  CHECK(all.allocated.above(0.5) <= 14);
  CHECK(all.allocated.worst() <= 1.5);
  // --log-num-zeros-in-grad, which the runs had and the plan has not, makes 232 MB in the
  // optimizer's step; launches are not compared, as deterministic mode fills each new tensor by one
  // of its own.
  CHECK(all.reserved.median() <= 5);
  // A stage with a ring reserves 126 MB less than planned, of 958.
  CHECK(all.reserved.above(11) <= 1);
  CHECK(all.reserved.worst() <= 14);
}

TEST_CASE("Megatron-core's layers in FP8 meet Transformer Engine's own on the emulated device") {
  const Compared all = compared("megatron_fp8_peaks.json");
  CHECK(all.allocated.count() >= 56);
  CHECK(all.allocated.median() <= 0.03);
  CHECK(all.allocated.above(0.48) <= 1);  // 8 MB of 1.4 GB, by blocks that PyTorch does not split
  CHECK(all.allocated.worst() <= 0.63);
  // As in bf16, and so is what two sequences reserve less than planned; launches are those of
  // deterministic mode.
  CHECK(all.reserved.median() <= 5);
  CHECK(all.reserved.above(7) <= 4);
  CHECK(all.reserved.worst() <= 17);
}

TEST_CASE("Megatron-core's mixtures of experts meet its own steps on the emulated device") {
  const Compared all = compared("megatron_experts_peaks.json");
  CHECK(all.allocated.count() >= 59);
  CHECK(all.allocated.median() <= 0.1);
  // SwiGLU's experts with two ranks a layer, by blocks that PyTorch does not split: 14 MB of 1.1
  // GB.
  CHECK(all.allocated.above(0.5) <= 4);
  CHECK(all.allocated.worst() <= 1.5);
  CHECK(all.reserved.median() <= 6);
  // Recomputed layers reserve a fifth less than planned.
  CHECK(all.reserved.above(15) <= 3);
}

}  // namespace ac_advisor::test
