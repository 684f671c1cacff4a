// Texts of public threads, retyped: each of another shape, and what it asked for as a product of
// the model's own figures.
#include <doctest/doctest.h>

#include <cstdlib>

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/oom/explain.hpp"
#include "oom/texts.hpp"

namespace ac_advisor::test {
namespace {

using oom::Finding;

Finding only(const oom::Explanation& e) {
  REQUIRE(e.findings.size() == 1);
  return e.findings.front();
}

Finding explain(const std::string& text) {
  return only(oom::explain(oom::read_errors(text), oom::cache_flushes(text)));
}

Finding explain(const std::string& text, const model::ModelSpec& model, const OptionList& options) {
  return only(oom::explain(oom::read_errors(text), oom::cache_flushes(text), model,
                           advise::resolve(model, options)));
}

/// As PyTorch 2.0 and before write it.
std::string old_message(const std::string& requested, const std::string& gpu,
                        const std::string& total, const std::string& allocated,
                        const std::string& free, const std::string& reserved) {
  return "CUDA out of memory. Tried to allocate " + requested + " (GPU " + gpu + "; " + total +
         " total capacity; " + allocated + " already allocated; " + free + " free; " + reserved +
         " reserved in total by PyTorch)\n";
}

/// Every line after the prefix.
std::string after_each(const std::string& prefix, const std::string& text) {
  std::string out = prefix;
  for (const char c : text) out += c == '\n' ? "\n" + prefix : std::string(1, c);
  out.resize(out.size() - prefix.size());
  return out;
}

bool says(const Finding& f, const char* words) {
  for (const std::string& note : f.notes)
    if (note.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("oom: torchrun's root cause on an MI355X, AMD-AGI/Primus#349") {
  std::string text =
      "Root Cause (first observed failure):\n[0]:\n  time      : 2025-12-11_14:23:35\n"
      "  rank      : 4 (local_rank: 4)\n  exitcode  : 1 (pid: 206)\n"
      "  traceback : Traceback (most recent call last):\n" +
      after_each("  ",
                 frame("/w/torchtitan/train.py", 492, "forward_backward_step", "loss.backward()") +
                     frame("/v/site-packages/torch/autograd/graph.py", 865, "_engine_run_backward",
                           "return Variable._execution_engine.run_backward(")) +
      "  torch.OutOfMemoryError: HIP out of memory. Tried to allocate 11.74 GiB. GPU 7 has a total "
      "capacity of 251.98 GiB of which 6.94 GiB is free. Of the allocated memory 229.04 GiB is "
      "allocated by PyTorch, and 12.46 GiB is reserved by PyTorch but unallocated.\n";
  const Finding alone = explain(text);
  CHECK(alone.error.backend == "HIP");
  CHECK(alone.phase == "backward");
  CHECK(alone.tensor->rows == 3 * 8192);
  CHECK(alone.tensor->width == 128256);
  CHECK(alone.tensor->element == 4);
  CHECK_FALSE(alone.tensor->certain);  // whose vocabulary it is, is a guess
  const Finding planned = explain(
      text, model::load_model("llama-3.1-8b"),
      {{"--batch", "6"}, {"--seq", "8192"}, {"--world", "8"}, {"--framework", "torchtitan"}});
  CHECK(planned.tensor->bytes == 6LL * 8192 * 128256 * 2);
  CHECK(planned.tensor->plan_phase == "backward");
}

TEST_CASE("oom: the foreach optimizer's square roots of one weight, huggingface/trl#2776") {
  // The model is the reader's guess: one that has a weight of these bytes.
  const std::string text = after_each(
      "[rank0]: ",
      frame("/v/site-packages/torch/optim/adamw.py", 220, "step", "adamw(") +
          frame("/v/site-packages/torch/optim/adamw.py", 606, "_multi_tensor_adamw",
                "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)") +
          Message{"130.00 MiB", "94.99 GiB", "87.19 MiB", "93.00 GiB", "500.00 MiB"}.text());
  const Finding f = explain(text, model::load_model("qwen2.5-7b"),
                            {{"--batch", "1"}, {"--seq", "1024"}, {"--optimizer", "adamw"}});
  CHECK(f.phase == "optimizer");
  CHECK(f.role == "the foreach optimizer's temporaries");
  CHECK(f.tensor->bytes == 3584LL * 18944 * 2);
}

TEST_CASE("oom: PyTorch 2.0's wording, in quotation marks, is of older models, Megatron-LM#525") {
  const std::string text =
      "\"torch.cuda.OutOfMemoryError: " +
      old_message("786.00 MiB", "0", "31.74 GiB", "28.82 GiB", "577.12 MiB", "29.97 GiB");
  const Finding alone = explain(text);
  CHECK(alone.error.old_wording);
  CHECK(alone.tensor->width == 50257);  // gpt-oss's 201,088 have as many bytes in 1,024 rows
  CHECK(alone.tensor->rows == 4 * 1024);
  const Finding planned =
      explain(text, model::load_model("gpt2-large"), {{"--batch", "4"}, {"--seq", "1024"}});
  CHECK(planned.tensor->made_by == "the planned batch: 4 x 1,024");
}

TEST_CASE("oom: a weight in 4 bits is half a byte an element, axolotl#1717 and #998") {
  const std::string moved = after_each(
      "[rank1]: ",
      frame("/v/site-packages/torch/nn/modules/module.py", 1159, "convert", "return t.to(") +
          frame("/v/site-packages/bitsandbytes/nn/modules.py", 330, "to",
                "super().to(device=device, dtype=dtype, non_blocking=non_blocking),") +
          "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU  has "
          "a total capacity of 23.68 GiB of which 60.31 MiB is free.\n");
  const OptionList options{
      {"--quantize", "nf4"}, {"--lora", "16"}, {"--batch", "1"}, {"--seq", "1024"}};
  const Finding f = explain(moved, model::load_model("llama-3.1-70b"), options);
  CHECK(f.phase == "set-up");
  CHECK(f.tensor->what == "an MLP's weight in 4 bits, two elements a byte");
  CHECK(f.tensor->bytes == 8192LL * 28672 / 2);

  const std::string told =
      old_message("28.00 MiB", "1", "15.71 GiB", "15.39 GiB", "24.31 MiB", "15.46 GiB");
  const std::string loaded =
      "[2023-12-28 10:04:57,187] [ERROR] [axolotl.load_model:453] [PID:34] [RANK:1] " + told +
      "Traceback (most recent call last):\n" +
      frame("/v/site-packages/transformers/modeling_utils.py", 786,
            "_load_state_dict_into_meta_model", "set_module_quantized_tensor_to_device(") +
      frame("/v/site-packages/transformers/integrations/bitsandbytes.py", 98,
            "set_module_quantized_tensor_to_device",
            "new_value = bnb.nn.Params4bit(new_value, requires_grad=False, **kwargs).to(device)") +
      "torch.cuda.OutOfMemoryError: " + told;
  const Finding expert = explain(loaded, model::load_model("mixtral-8x7b"), options);
  CHECK(expert.error.times == 2);
  CHECK(expert.tensor->what == "one expert's weight in 4 bits, two elements a byte");
  CHECK(expert.tensor->bytes == 4096LL * 14336 / 2);
}

TEST_CASE("oom: ZeRO 3 gathers a whole weight, deepspeedai/DeepSpeed#1624") {
  const std::string text =
      "File \"/v/site-packages/torch/distributed/distributed_c10d.py\", line 1432, in all_gather\n"
      "    work = _default_pg.allgather([tensor_list], [tensor])\nRuntimeError: " +
      old_message("274.00 MiB", "1", "23.70 GiB", "21.95 GiB", "25.69 MiB", "22.28 GiB");
  const model::ModelSpec model = model::parse_config(
      R"({"model_type": "gpt2", "n_embd": 6912, "n_layer": 12, "n_head": 12, "n_positions": 1024,
          "vocab_size": 50257})",
      "config.json", "wide");
  const Finding f = explain(text, model,
                            {{"--batch", "1"},
                             {"--seq", "1024"},
                             {"--world", "4"},
                             {"--framework", "deepspeed"},
                             {"--shard", "zero3"}});
  CHECK(f.role == "what is gathered from the ranks");
  // A quarter of a block, 12 x 6,912 x 6,912 elements and some, is as large.
  CHECK(f.tensor->what == "attention's query, key and value weight in one");
  CHECK(f.tensor->bytes == 3LL * 6912 * 6912 * 2);
}

TEST_CASE("oom: vLLM's sampler sorts the logits, whose indices are 8 bytes each, vllm#15105") {
  const std::string text = after_each(
      "(VllmWorker rank=1 pid=572) ERROR 03-20 02:29:07 [multiproc_executor.py:375] ",
      frame("/v/dist-packages/vllm/v1/sample/ops/topk_topp_sampler.py", 111, "apply_top_k_top_p",
            "logits_sort, logits_idx = logits.sort(dim=-1, descending=False)") +
          Message{"1.74 GiB", "23.69 GiB", "1.07 GiB", "21.00 GiB", "500.00 MiB",
                  "Process 922108 has 22.61 GiB memory in use. "}
              .text());
  const Finding f = explain(text);
  CHECK(f.error.ranks == std::vector<std::int64_t>{1});
  // cub's scratch: another value of 4 bytes and index of 8 for each of 1,024 sequences' logits
  CHECK(f.tensor->rows == 1024);
  CHECK(f.tensor->element == 4 + 8);
}

TEST_CASE("oom: a kind is told without a tensor where a text has no more") {
  const std::string scores =
      "main/vlmeval/vlm/qwen2_vl/modeling_qwen2_5_vl.py\", line 273, in forward\n"
      "    attn_weights = torch.matmul(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)\n" +
      Message{"124.68 GiB", "44.53 GiB", "19.05 GiB", "24.89 GiB", "73.93 MiB"}.text();
  const Finding cut = explain(scores);  // VLMEvalKit#1021, whose paste begins inside a frame
  CHECK(cut.role == "attention scores");
  CHECK(cut.where.empty());
  CHECK_FALSE(cut.tensor);

  const std::string loss =
      "    return torch._C._nn.cross_entropy_loss(input, target, weight, ignore_index)\n"
      "torch.cuda.OutOfMemoryError: " +
      old_message("9.14 GiB", "1", "39.41 GiB", "26.21 GiB", "5.86 GiB", "31.99 GiB");
  const Finding rows = explain(loss);  // BELLE#257: no vocabulary that is known has round rows
  CHECK(rows.role.find("logits") != std::string::npos);
  CHECK_FALSE(rows.tensor);

  const Finding pairs = explain(  // ms-swift#2044, likewise
      after_each("[rank1]: ",
                 "    per_token_logps = torch.gather(logits.log_softmax(-1), dim=2, "
                 "index=labels.unsqueeze(2))\n" +
                     Message{"8.36 GiB", "47.50 GiB", "1.52 GiB", "40.30 GiB", "4.91 GiB"}.text()));
  CHECK(pairs.role == "log-softmax of the logits");
  CHECK_FALSE(pairs.tensor);

  // LLaMA-Factory#3277: nothing but a size, and another process on the device
  const Finding size =
      explain(Message{"268.00 MiB", "79.15 GiB", "164.62 MiB", "43.82 GiB", "21.69 MiB",
                      "Process 95805 has 34.72 GiB memory in use. Including "
                      "non-PyTorch memory, this process has 44.25 GiB memory in "
                      "use. "}
                  .text());
  CHECK_FALSE(size.tensor);
  CHECK(says(size, "1 other process on this GPU holds 34.72 GiB"));
}

TEST_CASE("oom: the driver's own refusal in PyTorch 2.9's words, LLaMA-Factory#9331") {
  const Finding f = explain(
      "torch.AcceleratorError: CUDA error: out of memory\n"
      "Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/ for more information.\n");
  CHECK(f.error.kind == oom::Kind::device);
  CHECK(says(f, "not PyTorch's allocator"));
}

TEST_CASE("oom: what helps where a weight is loaded is no smaller batch") {
  const auto suggestions = [](const std::string& frames) {
    const std::string text =
        Message{"112.00 MiB", "23.68 GiB", "60.31 MiB", "23.50 GiB", "1.00 MiB", "", frames}.text();
    return oom::explain(oom::read_errors(text), 0).suggestions;
  };
  const auto any = [](const std::vector<std::string>& all, const char* word) {
    for (const std::string& s : all)
      if (s.find(word) != std::string::npos) return true;
    return false;
  };
  const auto loaded = suggestions(
      frame("/v/transformers/modeling_utils.py", 805, "_load_state_dict_into_meta_model", "f()"));
  CHECK(any(loaded, "8 or 4 bits"));
  CHECK_FALSE(any(loaded, "micro-batch"));
  CHECK(any(suggestions(frame("/a.py", 1, "forward", "self.act_fn(x)")), "micro-batch"));
}

TEST_CASE("oom: a log pasted newest line first, and Megatron's padded vocabulary, slime#1951") {
  const std::string text =
      Message{
          "58.15 GiB",
          "139.81 GiB",
          "47.69 GiB",
          "82.55 GiB",
          "2.06 GiB",
          "Process 22249 has 3.24 GiB memory in use. Including non-PyTorch memory, this process "
          "has 88.83 GiB memory in use. "}
          .text() +
      "                               ^^^^^^^^^^^^^^\n"
      "    log_prob = compute_log_probs(logits.clone(), tokens, tp_group)\n"
      "   File \"/root/slime/slime/utils/ppo_utils.py\", line 672, in "
      "calculate_log_probs_and_entropy\n";
  CHECK(explain(text).role == "a copy of the logits");
  const Finding f = explain(text, model::load_model("Qwen/Qwen3-4B"),
                            {{"--world", "4"}, {"--tp", "2"}, {"--seq", "9216"}});
  // 151,936 are padded to a multiple of 2 x 128, so that a rank has 76,032.
  CHECK(f.tensor->width == 76032);
  CHECK(f.tensor->element == 4);
  CHECK(std::abs(f.tensor->rows - 205280) <= 64);  // as the thread says
}

TEST_CASE("oom: a file of transformers says whose vocabulary it is, simplescaling/s1#106") {
  const std::string frames =
      frame("/usr/local/lib/python3.10/dist-packages/transformers/models/qwen2/modeling_qwen2.py",
            1183, "forward",
            "loss = self.loss_function(logits, labels, self.vocab_size, **loss_kwargs)") +
      frame("/usr/local/lib/python3.10/dist-packages/torch/nn/functional.py", 3479, "cross_entropy",
            "return torch._C._nn.cross_entropy_loss(");
  const std::string text =
      Message{"9.37 GiB", "139.72 GiB", "952.69 MiB", "130.77 GiB", "4.76 GiB", "", frames}.text();
  const Finding alone = explain(text);
  CHECK(alone.where == "torch/nn/functional.py:3479");
  CHECK(alone.tensor->what == "logits, of Qwen 2, 2.5 and 3");
  CHECK(alone.tensor->element == 4);
  CHECK_FALSE(alone.tensor->certain);
  const Finding f =
      explain(text, model::load_model("Qwen/Qwen2.5-32B-Instruct"),
              {{"--world", "8"}, {"--shard", "fsdp2"}, {"--seq", "32768"}, {"--ac", "full"}});
  CHECK(f.tensor->width == 152064);
  CHECK(f.tensor->made_by.find("16,5") == 0);
}

TEST_CASE("oom: the LM head's product, by a file of Llama's, llama-cookbook#949") {
  const std::string text = after_each(
      "[rank0]: ", frame("/v/site-packages/transformers/models/llama/modeling_llama.py", 837,
                         "forward", "logits = self.lm_head(hidden_states[:, slice_indices, :])") +
                       frame("/v/site-packages/torch/nn/modules/linear.py", 125, "forward",
                             "return F.linear(input, self.weight, self.bias)") +
                       Message{"3.91 GiB", "14.61 GiB", "1.99 GiB", "8.50 GiB", "3.96 GiB"}.text());
  const Finding f = explain(text);
  CHECK(f.role == "logits");
  CHECK(f.tensor->what == "logits, of Llama 3");
  CHECK(f.tensor->bytes == 8192LL * 128256 * 4);
}

TEST_CASE("oom: rows that are round by chance, or too many for any pass, name nothing") {
  // ToolRL#39: of 24 rows that 4.93 GiB allow another vocabulary has 10,240 among them.
  const Finding some =
      explain(Message{"4.93 GiB", "23.69 GiB", "2.20 GiB", "20.53 GiB", "516.21 MiB", "",
                      frame("/w/verl/utils/torch_functional.py", 97, "entropy_from_logits",
                            "pd = torch.nn.functional.softmax(logits, dim=-1)")}
                  .text());
  CHECK(some.role == "softmax of the logits, for their entropy");
  CHECK_FALSE(some.tensor);

  // axolotl#971: a gather by rows that are no rows; generate_qkv generates nothing.
  const std::string text =
      frame("/w/axolotl/monkeypatch/mistral_attn_hijack_flash.py", 340, "generate_qkv",
            "q_unpad, indices_q, cu_seqlens_q, max_seqlen_q = unpad_input(") +
      frame("/v/site-packages/flash_attn/bert_padding.py", 17, "forward", "return torch.gather(") +
      "torch.cuda.OutOfMemoryError: " +
      old_message("341.70 GiB", "0", "79.33 GiB", "10.00 GiB", "60.31 MiB", "12.21 GiB");
  const Finding none = explain(text, model::load_model("mistral-7b"),
                               {{"--batch", "1"}, {"--seq", "8192"}, {"--packing", "4"}});
  CHECK(none.role == "rows without padding, as flash-attn has them");
  CHECK(none.phase == "forward");
  CHECK_FALSE(none.tensor);
}

}  // namespace ac_advisor::test
