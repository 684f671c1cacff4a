#include <doctest/doctest.h>

#include "ac_advisor/oom/error.hpp"
#include "oom/lines.hpp"
#include "oom/texts.hpp"

namespace ac_advisor::test {
namespace {

using oom::Error;
using oom::Kind;

constexpr double GiB = 1024.0 * 1024 * 1024, MiB = 1024.0 * 1024;

Error one(const std::string& text) {
  const std::vector<Error> errors = oom::read_errors(text);
  REQUIRE(errors.size() == 1);
  return errors.front();
}

bool is(const std::optional<oom::Amount>& amount, double bytes) {
  return amount && static_cast<double>(amount->least()) <= bytes &&
         bytes <= static_cast<double>(amount->most());
}

}  // namespace

TEST_CASE("oom: the message of PyTorch 2.1 and later, each size with its precision") {
  // verl-project/verl#2828
  const Error e = one(Message{"13.91 GiB", "79.11 GiB", "8.85 GiB", "60.49 GiB", "6.77 GiB",
                              "Process 23444 has 70.25 GiB memory in use. "}
                          .text());
  CHECK(e.kind == Kind::allocator);
  CHECK(e.backend == "CUDA");
  CHECK(is(e.requested, 13.91 * GiB));
  CHECK(e.requested->slack == doctest::Approx(0.005 * GiB));
  CHECK(is(e.capacity, 79.11 * GiB));
  CHECK(is(e.free, 8.85 * GiB));
  CHECK(is(e.allocated, 60.49 * GiB));
  CHECK(is(e.unallocated, 6.77 * GiB));
  CHECK(e.devices == std::vector<std::int64_t>{0});
  // 70.25 are 60.49 + 6.77 and a context: in its container the process does not know its number.
  CHECK(is(e.this_process, 70.25 * GiB));
  CHECK(e.others.empty());
}

TEST_CASE("oom: of several processes on a device the one that is PyTorch's own is not another") {
  // huggingface/trl#5207
  const Error e = one(
      Message{"76.00 MiB", "14.74 GiB", "42.19 MiB", "10.59 GiB", "42.18 MiB",
              "Process 21219 has 284.00 MiB memory in use. Process 21222 has 3.40 GiB memory in "
              "use. Process 21213 has 258.00 MiB memory in use. Process 21216 has 10.77 GiB "
              "memory in use. "}
          .text());
  CHECK(is(e.this_process, 10.77 * GiB));
  REQUIRE(e.others.size() == 3);
  CHECK(e.others[1].id == 21222);
  CHECK(is(e.others[1].in_use, 3.40 * GiB));
}

TEST_CASE("oom: the message of PyTorch 2.0 and before") {
  const Error e =
      one("RuntimeError: CUDA out of memory. Tried to allocate 9.33 GiB (GPU 3; 10.76 GiB total "
          "capacity; 5.17 GiB already allocated; 4.48 GiB free; 5.28 GiB reserved in total by "
          "PyTorch)");
  CHECK(is(e.requested, 9.33 * GiB));
  CHECK(is(e.capacity, 10.76 * GiB));
  CHECK(is(e.allocated, 5.17 * GiB));
  CHECK(is(e.free, 4.48 * GiB));
  CHECK(is(e.unallocated, 0.11 * GiB));
  CHECK(e.devices == std::vector<std::int64_t>{3});
}

TEST_CASE("oom: HIP, a memory fraction, graphs' pools and a number that overflowed") {
  const Error e = one(
      "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 512 bytes. GPU 1 has a total "
      "capacity of 191.98 GiB of which 0 bytes is free. 100.00 GiB allowed; Including non-PyTorch "
      "memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 48.15 "
      "GiB "
      "is allocated by PyTorch, with 50.00 MiB allocated in private pools (e.g., CUDA Graphs), and "
      "3.49 GiB is reserved by PyTorch but unallocated.");
  CHECK(e.backend == "HIP");
  CHECK(e.requested->bytes == 512);
  CHECK(e.free->bytes == 0);
  CHECK(is(e.allowed, 100.0 * GiB));
  CHECK(is(e.private_pools, 50 * MiB));
  CHECK_FALSE(e.this_process);
}

TEST_CASE("oom: what ranks tell alike is one error, with the frames of one of them") {
  const auto rank = [](int n) {
    const std::string prefix = "[rank" + std::to_string(n) + "]: ";
    std::string told;
    for (const std::string& line :
         {std::string("Traceback (most recent call last):"),
          std::string("  File \"/v/lib/python3.11/site-packages/torch/nn/functional.py\", line "
                      "3479, in cross_entropy"),
          std::string("    return torch._C._nn.cross_entropy_loss("),
          std::string("           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^")})
      told += prefix + line + "\n";
    return told + prefix +
           Message{"4.64 GiB", "31.74 GiB", "1.41 GiB", "23.51 GiB", "5.51 GiB", ""}.text();
  };
  const Error e = one("step 3\n" + rank(1) + "other output\n" + rank(0) + rank(1));
  CHECK(e.times == 3);
  CHECK(e.ranks == std::vector<std::int64_t>{0, 1});
  REQUIRE(e.frames.size() == 1);
  CHECK(e.frames[0].function == "cross_entropy");
  CHECK(e.frames[0].source == "return torch._C._nn.cross_entropy_loss(");
  CHECK(e.frames[0].line == 3479);
}

TEST_CASE("oom: interleaved tracebacks stay apart, by what stands before their lines") {
  const std::vector<Error> errors = oom::read_errors(
      "(WorkerDict pid=1) Traceback (most recent call last):\n"
      "(WorkerDict pid=2) Traceback (most recent call last):\n"
      "(WorkerDict pid=1)   File \"a.py\", line 1, in forward\n"
      "(WorkerDict pid=2)   File \"b.py\", line 2, in step\n"
      "(WorkerDict pid=1) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"
      "(WorkerDict pid=2) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 "
      "GiB.\n");
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].frames.at(0).file == "a.py");
  CHECK(errors[1].frames.at(0).file == "b.py");
}

TEST_CASE("oom: what libraries, engines and DeepSpeed say around it") {
  CHECK(one("RuntimeError: CUDA error: out of memory\n").kind == Kind::device);
  const Error engine = one(
      "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 "
      "GiB "
      "KV cache is needed, which is larger than the available KV cache memory (9.77 GiB). Based on "
      "the available memory, the estimated maximum model length is 79952.\n");
  CHECK(engine.kind == Kind::engine);
  CHECK(is(engine.needed_kv, 16 * GiB));
  CHECK(is(engine.available_kv, 9.77 * GiB));
  CHECK(one("[W812 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 1 "
            "while "
            "trying to allocate 20971520 bytes (free: 15794176, total: 150111977472).\n")
            .kind == Kind::recoverable);
  CHECK(oom::cache_flushes(
            "[stage3.py:2069:step] 27 pytorch allocator cache flushes since last step. this "
            "happens\n[stage3.py:2069:step] 3 pytorch allocator cache flushes since last step.") ==
        27);
  CHECK(oom::read_errors("everything is well; nothing was out of the ordinary").empty());
}

TEST_CASE("oom: the next line of a message is its own process's") {
  const Error e =
      oom::read_errors(
          "(WorkerDict pid=1) torch.OutOfMemoryError: CUDA out of memory. Tried to "
          "allocate 1.00 GiB.\n"
          "(WorkerDict pid=2) GPU 1 has a total capacity of 10.00 GiB of which 5.00 GiB "
          "is free.\n"
          "(WorkerDict pid=1) GPU 0 has a total capacity of 79.11 GiB of which 0.50 GiB "
          "is free.\n")
          .at(0);
  CHECK(is(e.capacity, 79.11 * GiB));
  CHECK(is(e.free, 0.5 * GiB));
  CHECK(e.devices == std::vector<std::int64_t>{0});
}

TEST_CASE("oom: of a log that is too long the end is read") {
  const auto texts = [](std::string_view text, std::size_t most) {
    std::vector<std::string> all;
    for (const oom::Line& line : oom::lines_of(text, most)) all.push_back(line.text);
    return all;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts("a\nb\r\nc\n", 1) == Texts{"c"});
  CHECK(texts("a\nb\nc", 2) == Texts{"b", "c"});
  CHECK(texts("a\nb\nc\n", 3) == Texts{"a", "b", "c"});
  CHECK(texts("a\nb\nc\n", 4) == Texts{"a", "b", "c"});
  CHECK(texts("", 4).empty());
}

namespace {

/// A traceback of the loss, line by line, as Python writes it.
const std::vector<std::string> of_loss{
    "Traceback (most recent call last):",
    "  File \"/a/train.py\", line 10, in <module>",
    "    main()",
    "  File \"/v/site-packages/transformers/loss/loss_utils.py\", line 36, in fixed_cross_entropy",
    "    loss = nn.functional.cross_entropy(source, target)",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.25 GiB is free."};

/// Each line after what `prefix` makes of its number.
template <typename Prefix>
std::string logged(const Prefix& prefix, const char* end = "\n") {
  std::string text;
  for (std::size_t i = 0; i < of_loss.size(); ++i) text += prefix(i) + of_loss[i] + end;
  return text;
}

/// Both frames, the inner one's function and source.
void has_the_frames(const std::string& text, std::size_t frames = 2) {
  CAPTURE(text);
  const Error e = one(text);
  CHECK(is(e.requested, 4.64 * GiB));
  REQUIRE(e.frames.size() == frames);
  CHECK(e.frames.back().function == "fixed_cross_entropy");
  CHECK(e.frames.back().source.starts_with("loss = nn.functional.cross_entropy(source, target)"));
}

}  // namespace

TEST_CASE("oom: what loggers, launchers and containers put before each line is no part of it") {
  const auto always = [](const std::string& prefix) { return [=](std::size_t) { return prefix; }; };
  for (const char* prefix :
       {"(EngineCore_DP0 pid=47355) ERROR 10-10 12:13:29 [core.py:708] ",  // vllm#26565
        "> ERROR 03-13 09:00:43 [core.py:330] ",                           // vllm#12529
        "(VllmWorker rank=1 pid=24) ERROR 05-10 16:00:15 [multiproc_executor.py:470] ",
        "[1,3]<stderr>:", "3: ", "trainer-1  | ", "gpu-q-13: ", "worker-a: [rank3]: ",
        "\x1b[36m(WorkerDict pid=1)\x1b[0m ", "[36m(WorkerDict pid=1)[0m ",
        "2024-08-29 06:16:28.123 | ERROR    | autotrain.common:wrapper:120 - ", "<<job 7>> "})
    has_the_frames(logged(always(prefix)));
  has_the_frames(logged(always(""), "\r\n"));
  // Times differ from line to line.
  const auto two = [](std::size_t i) { return std::to_string(10 + i); };
  has_the_frames(logged([&](std::size_t i) { return "2025-11-19T20:16:36.09" + two(i) + "Z "; }));
  has_the_frames(logged([&](std::size_t i) {
    return "[2024-10-28 17:59:21,7" + two(i) + "] [ERROR] [launch.py:1:main] ";
  }));
  has_the_frames(logged([&](std::size_t i) {
    return "E1126 12:33:44.1230" + two(i) + " 139 torch/elastic/api.py:123] ";
  }));
  // vllm#29049: a cloud's log, which keeps no indentation.
  has_the_frames(logged([&](std::size_t i) {
    return "INFO 2025-11-19T20:16:36.0966" + two(i) +
           "Z [resource.labels.containerName: vllm] (EngineCore_DP0 pid=2) ERROR 11-19 12:16:36 "
           "[v1/engine/core.py:842]";
  }));
  CHECK(one(logged(always("[1,3]<stderr>:"))).ranks == std::vector<std::int64_t>{3});
  CHECK(one(logged(always("(VllmWorker rank=1 pid=24) "))).ranks == std::vector<std::int64_t>{1});
}

TEST_CASE("oom: a traceback pasted into one line, or in a text of JSON, has its frames") {
  std::string flat, json = "{\"level\": \"error\", \"exception\": \"";
  for (const std::string& line : of_loss) {
    flat += line.substr(line.find_first_not_of(' ')) + ' ';
    for (const char c : line) json += c == '"' ? std::string("\\\"") : std::string(1, c);
    json += "\\n";
  }
  has_the_frames(flat);
  has_the_frames(json + "\"}\n");
  // salesforce/CodeGen2#3: two ranks' messages without a line's end between them.
  const std::string told =
      "HIP out of memory. Tried to allocate 576.00 MiB (GPU 3; 15.98 GiB total capacity; 15.83 GiB "
      "already allocated; 0 bytes free; 15.84 GiB reserved in total by PyTorch) If reserved";
  std::string other = told;
  other[other.find("GPU 3") + 4] = '1';
  const Error both = one("c05r2n11: RuntimeErrorRuntimeError: : " + told + other + "\n");
  CHECK(both.devices == std::vector<std::int64_t>{1, 3});
  CHECK(both.times == 2);
}

TEST_CASE("oom: frames of rich, IPython and pytest, whose source is the line that they point at") {
  const std::string& message = of_loss.back();
  has_the_frames(
      "│ /v/lib/python3.10/site-packages/transformers/loss/lo │\n"
      "│ ss_utils.py:36 in fixed_cross_entropy                │\n"
      "│                                                      │\n"
      "│    34 │   │   x = upcast(y)                            │\n"
      "│ ❱  36 │   │   loss = nn.functional.cross_entropy(source, target) │\n"
      "│    37 │   │   return loss                              │\n" +
          message + "\n",
      1);
  CHECK(one("│ /v/transformers/loss/lo │\n│ ss_utils.py:36 in f │\n" + message).frames.at(0).file ==
        "/v/transformers/loss/loss_utils.py");
  has_the_frames(
      "File /v/torch/nn/functional.py:36, in fixed_cross_entropy(input, target)\n"
      "   35 if upcast:\n"
      "-> 36 loss = nn.functional.cross_entropy(source, target)\n\n" +
          message,
      1);
  has_the_frames(
      "/v/torch/nn/functional.py in fixed_cross_entropy(input, target)\n"
      "     35     if upcast:\n"
      "---> 36     loss = nn.functional.cross_entropy(source, target)\n\n" +
          message,
      1);
  has_the_frames(
      "a/loss.py:36: in fixed_cross_entropy\n"
      "    loss = nn.functional.cross_entropy(source, target)\nE   " +
          message,
      1);
  const Error pytest = one(">       loss = nn.functional.cross_entropy(source, target)\nE       " +
                           message + "\n\ntests/x.py:85: OutOfMemoryError\n");
  CHECK(pytest.frames.at(0).source == "loss = nn.functional.cross_entropy(source, target)");
}

TEST_CASE("oom: a message that was cut off before its size is one, where no other is") {
  const std::string cut = of_loss.back().substr(0, 57);  // "… CUDA out of memory. Tried to al"
  std::string traceback;
  for (std::size_t i = 0; i + 1 < of_loss.size(); ++i) traceback += of_loss[i] + '\n';
  const Error e = one(traceback + cut + "\n");
  CHECK_FALSE(e.requested);
  CHECK(e.frames.size() == 2);
  CHECK(is(one("FAILED a.py - " + cut + "\n" + traceback + of_loss.back()).requested, 4.64 * GiB));
  CHECK(oom::read_errors("If you see CUDA out of memory, use a smaller batch.\n").empty());
  // NVIDIA-NeMo/RL#2871: frames in people's own words; the statement stands there.
  const Error told =
      one("  -> _compute_distributed_log_softmax (model_utils.py:59)\n"
          "      exps = vocab_parallel_logits.exp().sum(-1, keepdim=True)\n"
          "torch.OutOfMemoryError: Tried to allocate 12.60 GiB. GPU had 12.44 GiB\n");
  CHECK(told.frames.at(0).source == "exps = vocab_parallel_logits.exp().sum(-1, keepdim=True)");
}

}  // namespace ac_advisor::test
