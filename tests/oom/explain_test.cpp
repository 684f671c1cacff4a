// Texts as they stand in public threads; what each asks for is written out as a product.
#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/oom/explain.hpp"
#include "oom/frame_marks.hpp"
#include "oom/tensor.hpp"
#include "oom/texts.hpp"

namespace ac_advisor::test {
namespace {

using oom::Explanation;
using oom::Finding;

const std::string loss_frame =
    frame("/v/site-packages/transformers/loss/loss_utils.py", 36, "fixed_cross_entropy",
          "loss = nn.functional.cross_entropy(source, target, ignore_index=ignore_index)");

Explanation explain(const std::string& text) {
  return oom::explain(oom::read_errors(text), oom::cache_flushes(text));
}

Explanation explain(const std::string& text, const model::ModelSpec& model,
                    const OptionList& options) {
  return oom::explain(oom::read_errors(text), oom::cache_flushes(text), model,
                      advise::resolve(model, options));
}

Finding only(const Explanation& e) {
  REQUIRE(e.findings.size() == 1);
  REQUIRE(e.findings.front().tensor);
  return e.findings.front();
}

Finding without_model(const std::string& requested, const std::string& frames) {
  return only(explain(
      Message{requested, "79.11 GiB", "1.00 GiB", "70.00 GiB", "0.50 GiB", "", frames}.text()));
}

Finding with_model(const std::string& requested, const std::string& frames,
                   const std::string& model_name, OptionList options) {
  const model::ModelSpec model = model::load_model(model_name);
  const std::string text =
      Message{requested, "79.11 GiB", "1.00 GiB", "70.00 GiB", "0.50 GiB", "", frames}.text();
  return only(explain(text, model, options));
}

}  // namespace

TEST_CASE("oom: rows of the vocabulary are told by size and traceback, without a model") {
  struct Case {
    const char* requested;
    std::int64_t rows, vocabulary;
    const char* source;
  };
  // verl#2828, LlamaFactory#6800, Megatron-Bridge#5508, NeMo-RL#4114 and #2811: rows x vocabulary x
  // 4 bytes each.
  for (const Case& c : {Case{"13.91 GiB", 3 * 8192, 151936, "verl_F.entropy_from_logits(logits)"},
                        Case{"4.64 GiB", 2 * 4096, 152064, "F.cross_entropy(logits, labels)"},
                        Case{"3.79 GiB", 4096, 248320, "vocab_parallel_cross_entropy(logits)"},
                        Case{"5.87 GiB", 3 * 4096, 128256, "logits.to(torch.float32)"},
                        Case{"9.27 GiB", 4 * 4096, 151936, "logits.to(torch.float32)"}}) {
    CAPTURE(c.requested);
    const Finding f = without_model(c.requested, frame("/a/loss.py", 1, "forward", c.source));
    CHECK(f.tensor->rows == c.rows);
    // 151,936 and 152,064 are as near as the digits: the other one is told as well.
    bool told = f.tensor->width == c.vocabulary;
    for (const oom::Tensor& t : f.alternatives) told = told || t.width == c.vocabulary;
    CHECK(told);
    CHECK(f.tensor->element == 4);
    CHECK(f.role.find("logits") != std::string::npos);
  }
}

TEST_CASE("oom: a compiled buffer's own source line says its width and dtype") {
  // THUDM/slime#1951: 29.39 GiB of rows of 76,032 in fp32, 304,128 bytes each.
  const Finding f = without_model(
      "29.39 GiB", frame("/tmp/torchinductor_root/kw/a.py", 287, "call",
                         "buf9 = empty_strided_cuda((s10, 1, 76032), (76032, 76032*s10, 1), "
                         "torch.float32)"));
  CHECK(f.tensor->width == 76032);
  CHECK(f.tensor->element == 4);
  CHECK(f.tensor->rows * 76032 * 4 <= static_cast<std::int64_t>(29.395 * (1 << 30)));
  CHECK(f.tensor->rows * 76032 * 4 >= static_cast<std::int64_t>(29.38 * (1 << 30)));
}

TEST_CASE("oom: with the model, the batch that made the tensor, and where the plan has it") {
  // Llama 3.1's vocabulary: 1 x 8,192 x 128,256 x 4 bytes are 3.914 GiB.
  const Finding planned = with_model("3.91 GiB", loss_frame, "llama-3.1-8b",
                                     {{"--batch", "1"}, {"--seq", "8192"}, {"--loss", "ce"}});
  CHECK(planned.tensor->rows == 8192);
  CHECK(planned.tensor->certain);
  CHECK(planned.tensor->made_by == "the planned batch: 1 x 8,192");
  CHECK(planned.tensor->plan_phase == "loss");
  // Twice as many: 7.828 GiB
  const Finding twice = with_model("7.83 GiB", loss_frame, "llama-3.1-8b",
                                   {{"--batch", "1"}, {"--seq", "8192"}, {"--loss", "ce"}});
  CHECK(twice.tensor->made_by == "2 sequences of 8,192 in one pass (planned: 1)");
}

TEST_CASE("oom: a weight that is loaded, an optimizer's states, a gathered block") {
  const std::string load =
      frame("/v/site-packages/transformers/modeling_utils.py", 805,
            "_load_state_dict_into_meta_model", "set_module_tensor_to_device(");
  // meta-llama/llama#913: 28,672 x 8,192 x 2 bytes are 448 MiB.
  const Finding weight = with_model("448.00 MiB", load, "llama-3.1-70b", {{"--world", "8"}});
  CHECK(weight.tensor->what == "an MLP's weight");
  CHECK(weight.tensor->bytes == 28672LL * 8192 * 2);
  CHECK(weight.tensor->made_by.empty());

  // Llama 3.1 8B: 8,030,261,248 parameters; a rank of 8 has 1,003,782,656 of them, in fp32 3.739
  // GiB.
  const std::string states =
      frame("/v/site-packages/deepspeed/runtime/zero/stage_1_and_2.py", 700,
            "initialize_optimizer_states", "single_grad_partition = torch.zeros(");
  const Finding state = with_model("3.74 GiB", states, "llama-3.1-8b",
                                   {{"--world", "8"}, {"--framework", "deepspeed"}});
  CHECK(state.tensor->what == "all parameters in one piece, one rank's part");
  CHECK(state.tensor->element == 4);

  // A block of it: 4,096 x 4,096 x 2 + 4,096 x 1,024 x 2 + 3 x 4,096 x 14,336 + 2 x 4,096 elements.
  const std::string gather =
      frame("/v/site-packages/torch/distributed/fsdp/_flat_param.py", 1307, "unshard",
            "unsharded_flat_param = self._alloc_padded_unsharded_flat_param()");
  const Finding unit =
      with_model("418.00 MiB", gather, "llama-3.1-8b", {{"--world", "8"}, {"--shard", "fsdp2"}});
  CHECK(unit.tensor->what == "a block's parameters");
  CHECK(unit.tensor->bytes ==
        2 * (2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336 + 2 * 4096));
}

TEST_CASE("oom: DeepSpeed's bucket is told by its size, 500,000,000 elements unless one says") {
  const std::string bucket =
      frame("/v/site-packages/deepspeed/runtime/zero/stage_1_and_2.py", 900, "reduce_ipg_grads",
            "self.ipg_buffer.append(torch.empty(int(self.reduce_bucket_size), dtype=self.dtype))");
  // 1,000,000,000 bytes are 953.67 MiB, in a segment of 954.
  const Finding f = without_model("954.00 MiB", bucket);
  CHECK(f.tensor->what == "a bucket of ZeRO's");
  CHECK(f.tensor->bytes == 1'000'000'000);
  CHECK(f.role == "ZeRO's bucket of gradients");
  const Finding planned = with_model(
      "954.00 MiB", "", "llama-3.1-8b",
      {{"--batch", "1"}, {"--seq", "4096"}, {"--world", "8"}, {"--framework", "deepspeed"}});
  CHECK(planned.tensor->what == "a bucket of ZeRO's");
}

TEST_CASE("oom: unfused attention's scores tell the length of a sequence") {
  const std::string scores =
      frame("/v/site-packages/transformers/models/llama/modeling_llama.py", 200,
            "eager_attention_forward",
            "attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32)");
  // 32 heads x 8,192 x 8,192 x 4 bytes are 8 GiB.
  const Finding f = with_model("8.00 GiB", scores, "llama-3.1-8b",
                               {{"--batch", "1"}, {"--seq", "4096"}, {"--attn", "eager"}});
  CHECK(f.tensor->what == "attention scores");
  CHECK(f.tensor->rows == 8192);
  CHECK(f.tensor->element == 4);
}

TEST_CASE("oom: need and fragmentation are told apart") {
  const auto finding = [](const char* free, const char* unallocated) {
    return explain(Message{"4.00 GiB", "79.11 GiB", free, "70.00 GiB", unallocated}.text())
        .findings.at(0);
  };
  const Finding pieces = finding("1.50 GiB", "3.00 GiB");  // 4.5 of 4
  CHECK(pieces.fragmented);
  CHECK(pieces.missing == 0);
  CHECK(pieces.need.find("expandable_segments") != std::string::npos);
  const Finding need = finding("1.00 GiB", "0.50 GiB");  // 1.5 of 4
  CHECK_FALSE(need.fragmented);
  CHECK(need.missing == 5LL << 29);
}

TEST_CASE("oom: three changes at most, each fits as it is planned, the cheapest first") {
  const model::ModelSpec model = model::load_model("llama-3.1-8b");
  const OptionList options{{"--batch", "4"},     {"--seq", "4096"}, {"--world", "8"},
                           {"--shard", "fsdp2"}, {"--ac", "none"},  {"--grad-accum", "2"}};
  const Explanation e = explain(
      Message{"7.83 GiB", "79.11 GiB", "1.00 GiB", "70.00 GiB", "0.50 GiB", "", loss_frame}.text(),
      model, options);
  REQUIRE(e.planned);
  CHECK_FALSE(e.planned->profile.fit.fits);
  const auto& changes = e.planned->changes;
  REQUIRE_FALSE(changes.empty());
  CHECK(changes.size() <= 3);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(changes[i].technique);
    CHECK(changes[i].profile.fit.fits);
    if (i > 0) CHECK(changes[i - 1].slower <= changes[i].slower);
    OptionList with = options;
    for (const auto& [name, value] : changes[i].options) {
      std::erase_if(with, [&, n = name](const auto& option) { return option.first == n; });
      with.emplace_back(name, value);
    }
    const profile::Profile again = advise::plan(model, advise::resolve(model, with).config, false);
    CHECK(again.memory.peak_allocated == changes[i].profile.memory.peak_allocated);
  }
}

TEST_CASE("oom: a change's options, typed by hand, plan what it told") {
  // A chunk that nobody named is Liger's, of other tokens than the change began with.
  const model::ModelSpec model = model::load_model("qwen3-8b");
  const OptionList options{{"--batch", "1"},
                           {"--seq", "8192"},
                           {"--world", "8"},
                           {"--shard", "fsdp2"},
                           {"--ac", "none"}};
  const auto changes = advise::changes_that_fit(
      model, advise::plan(model, advise::resolve(model, options)), options);
  bool chunked = false;
  for (const advise::Change& change : changes) {
    OptionList with = options;
    for (const auto& [bound_name, bound_value] : change.options) {
      const auto& name = bound_name;
      const auto& value = bound_value;
      CAPTURE(name + " " + value);
      chunked = chunked || (name == "--loss" && value.starts_with("chunked:"));
      std::erase_if(with, [&, n = name](const auto& option) { return option.first == n; });
      with.emplace_back(name, value);
    }
    const profile::Profile again = advise::plan(model, advise::resolve(model, with), false);
    CHECK(again.memory.peak_allocated == change.profile.memory.peak_allocated);
    CHECK(again.memory.peak_reserved == change.profile.memory.peak_reserved);
  }
  CHECK(chunked);
}

TEST_CASE("oom: changes keep what a preset fell back to for the model") {
  // automodel's has flash attention, whose function takes no sinks.
  const model::ModelSpec model = model::load_model("openai/gpt-oss-20b");
  const OptionList options{
      {"--framework", "automodel"}, {"--world", "8"}, {"--batch", "16"}, {"--seq", "8192"}};
  const advise::Resolved resolved = advise::resolve(model, options);
  REQUIRE(resolved.options != options);
  const Explanation e = explain(
      Message{"7.83 GiB", "79.11 GiB", "1.00 GiB", "70.00 GiB", "0.50 GiB"}.text(), model, options);
  REQUIRE_FALSE(e.planned->profile.fit.fits);
  REQUIRE_FALSE(e.planned->changes.empty());
  for (const advise::Change& change : e.planned->changes)
    CHECK(change.profile.config.run.attention == resolved.config.run.attention);
}

TEST_CASE("oom: at most three tensors are told, and one sequence is not several") {
  // 4 x 4,096 are planned, one sequence of them was asked for: 4,096 x 128,256 x 4 bytes are
  // 1.957 GiB.
  const Finding f = with_model("1.96 GiB", loss_frame, "llama-3.1-8b",
                               {{"--batch", "4"}, {"--seq", "4096"}, {"--loss", "ce"}});
  CHECK(f.tensor->made_by == "1 sequence of 4,096 in one pass (planned: 4)");
  CHECK(f.alternatives.size() <= 2);
}

TEST_CASE("oom: a segment of 2 or 20 MiB says little of its tensor, and that is told") {
  for (const char* small : {"2.00 MiB", "20.00 MiB"}) {
    CAPTURE(small);
    const Explanation e =
        explain(Message{small, "79.11 GiB", "1.00 MiB", "78.00 GiB", "0.50 GiB"}.text());
    REQUIRE(e.findings.size() == 1);
    CHECK_FALSE(e.findings[0].tensor);
    bool told = false;
    for (const std::string& note : e.findings[0].notes)
      told = told || note.find("says little of its tensor") != std::string::npos;
    CHECK(told);
  }
  // A segment of 2 MiB is made for at most 1 MiB (kSmallSize, c10/cuda/CUDACachingAllocator.cpp).
  constexpr std::int64_t mib = 1 << 20;
  const oom::Range asked = oom::asked_for({2 * mib, mib / 200});
  CHECK(asked.least == 1);
  CHECK(asked.most == mib);
}

TEST_CASE("oom: the nearest of a frame's marks decides") {
  const auto role = [](const char* function, const char* source) {
    const std::vector<oom::Frame> frames{{"/a/b.py", function, source, 1}};
    return oom::marks_of(frames);
  };
  CHECK(role("forward", "hidden_states = hidden_states.to(torch.float32)").role ==
        oom::Role::activation);
  CHECK(role("forward", "x = x.to(torch.float32)").words == "a cast to fp32");
  CHECK(role("flatten_dense_tensors_aligned", "return flat").role == oom::Role::gradient);
  CHECK(role("_canonical_mask", "torch.zeros_like(mask, dtype=target_type)").role ==
        oom::Role::mask);  // pytorch/pytorch#123070
  CHECK(role("sample", "logits_sort, logits_idx = logits.sort(dim=-1, descending=False)").role ==
        oom::Role::logits);  // vllm#29049
  CHECK(role("caching_allocator_warmup", "_ = torch.empty(byte_count, device=device)").role ==
        oom::Role::state);
}

}  // namespace ac_advisor::test
