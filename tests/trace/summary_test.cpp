#include "ac_advisor/trace/summary.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/reports/trace_summary.hpp"
#include "ac_advisor/trace/read.hpp"
#include "reports/grid.hpp"
#include "reports/json_schema.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

/// A trace of torch.profiler, made of launches and what they ran. Times in microseconds.
class Made {
 public:
  Made& range(const std::string& name, int ts, int dur) {
    return add("user_annotation", name, 5, ts, dur, "");
  }
  Made& op(const std::string& name, int ts, int dur, const std::string& args = "") {
    return add("cpu_op", name, 5, ts, dur, args);
  }
  Made& kernel(const std::string& name, int launched, int start, int dur, int stream = 7) {
    ++correlation_;
    const std::string args = "\"device\": 0, \"correlation\": " + std::to_string(correlation_);
    add("cuda_runtime", "cudaLaunchKernel", 5, launched, 1, args);
    return add("kernel", name, stream, start, dur, args, 0);
  }
  Made& copy(int launched, int start, int dur, int bytes) {
    ++correlation_;
    const std::string args = "\"device\": 0, \"correlation\": " + std::to_string(correlation_);
    add("cuda_runtime", "cudaMemcpyAsync", 5, launched, 1, args);
    return add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, start, dur,
               args + ", \"bytes\": " + std::to_string(bytes), 0);
  }
  [[nodiscard]] std::string text(const std::string& more = "") const {
    return "{" + more + "\"traceEvents\": [" + events_ + "]}";
  }
  [[nodiscard]] Summary summary(const std::string& more = "") const {
    return summary_of(read_trace_bytes(text(more), "t.json"));
  }

 private:
  Made& add(const std::string& category, const std::string& name, int tid, int ts, int dur,
            const std::string& args, int pid = 5) {
    events_ += (events_.empty() ? "" : ",\n") + std::string("{\"ph\": \"X\", \"cat\": \"") +
               category + "\", \"name\": \"" + name + "\", \"pid\": " + std::to_string(pid) +
               ", \"tid\": " + std::to_string(tid) + ", \"ts\": " + std::to_string(ts) +
               ", \"dur\": " + std::to_string(dur) + ", \"args\": {" + args + "}}";
    return *this;
  }
  std::string events_;
  int correlation_ = 0;
};

const char* const gemm = "nvjet_hsh_128x128_64x6_1x2_h_bz_coopA_NNT";
const char* const all_gather = "ncclDevKernel_AllGather_RING_LL(P)";

/// Three steps of a kernel of 10 us each, 100 us apart.
Made steps() {
  Made made;
  for (int i = 0; i < 3; ++i)
    made.range("ProfilerStep#" + std::to_string(i + 1), 100 * i + 100, 90)
        .kernel(gemm, 100 * i + 110, 100 * i + 120, 10);
  return made;
}

std::string folder(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(test::binary_dir) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void check_schema(const std::string& text) {
  for (const std::string& error : test::schema_errors(text)) FAIL_CHECK(error);
}

}  // namespace

TEST_CASE("a summary's totals are of the whole trace, its step of the steady ones") {
  const Summary s = steps().copy(350, 360, 5, 1'000'000).summary();
  CHECK(s.steps == 3);
  CHECK(s.whole.busy_seconds == doctest::Approx(35e-6));
  CHECK(s.whole.idle_seconds == doctest::Approx((90 + 90 + 30) * 1e-6));
  CHECK(s.whole.launches == 3);  // of kernels: a copy is none
  CHECK(s.whole.kernels == 3);
  CHECK(s.whole.memcpy_bytes == 1'000'000);
  REQUIRE(s.step);
  CHECK(s.step_count == 2);
  CHECK(s.step->kernels == 1);
  CHECK(s.step->busy_seconds == doctest::Approx((10 + 15) * 1e-6 / 2));
  REQUIRE(s.copies.size() == 1);
  CHECK(s.copies[0].name == "Memcpy HtoD (Pinned -> Device)");
  REQUIRE(s.kernels.size() == 1);
  CHECK(s.kernels[0].kind == "matrix_product");
  CHECK(s.kernels[0].seconds == doctest::Approx(30e-6));
}

TEST_CASE("idle time has a cause: the host, the kernel's beginning, or another stream") {
  const Summary s = Made()
                        .kernel(gemm, 0, 10, 10)   // until 20
                        .kernel(gemm, 5, 23, 10)   // queued, begins 3 us later: kernel
                        .kernel(gemm, 25, 43, 10)  // queued, waits 10 us: other
                        .kernel(gemm, 60, 73, 10)  // launched 7 us after the device ran dry: host
                        .summary();
  CHECK(s.whole.idle_seconds == doctest::Approx((3 + 10 + 20) * 1e-6));
  CHECK(s.whole.idle_kernel_seconds == doctest::Approx(3e-6));
  CHECK(s.whole.idle_other_seconds == doctest::Approx(10e-6));
  CHECK(s.whole.idle_host_seconds == doctest::Approx(20e-6));
  CHECK(s.whole.idle_unknown_seconds() == doctest::Approx(0));
}

TEST_CASE("communication is exposed where no other kernel runs beside it") {
  // 100 us of all-gather from 10; kernels beside it from 40 to 60 and from 90 to 130.
  const Summary s = Made()
                        .kernel(all_gather, 0, 10, 100, 20)
                        .kernel(gemm, 1, 40, 20)
                        .kernel(gemm, 2, 90, 40)
                        .summary();
  CHECK(s.whole.communication_seconds == doctest::Approx(100e-6));
  CHECK(s.whole.exposed_communication_seconds == doctest::Approx((100 - 20 - 20) * 1e-6));
  CHECK(s.whole.busy_seconds == doctest::Approx(120e-6));
  CHECK(s.whole.compute_seconds() == doctest::Approx(60e-6));
  CHECK(s.seconds_by_kind.at("communication") == doctest::Approx(100e-6));
}

TEST_CASE("a summary names the module and the op that run again") {
  const Summary s = summary_of(read_trace(test::fixture_path("kineto_modules.json")));
  REQUIRE(s.recomputation);
  CHECK(s.recomputation->seconds == doctest::Approx(50e-6));
  REQUIRE(s.recomputation->by_module.size() == 1);
  CHECK(s.recomputation->by_module[0].name == "Net.Block");
  REQUIRE(s.recomputation->by_op.size() == 1);
  CHECK(s.recomputation->by_op[0].name == "aten::mm");
  CHECK(test::has(reports::markdown(s), "most of it in Net.Block, aten::mm"));
  // Both blocks' products are of one kind of module.
  const auto linear = std::find_if(s.modules.begin(), s.modules.end(), [](const SummaryRow& m) {
    return m.name == "Net.Block.Linear";
  });
  REQUIRE(linear != s.modules.end());
  CHECK(linear->instances == 2);
  CHECK(linear->count == 3);
}

TEST_CASE("modules are what a path names beside steps, phases and ops") {
  CHECK(module_of("ProfilerStep/nn.Module: Llama_0/FSDP::all_gather/nn.Module: Layer_3") ==
        "Llama_0.Layer_3");
  CHECK(module_of("ac-trainer/step/recompute/blocks.3.mlp") == "blocks.3.mlp");
  CHECK(module_of("step/backward/autograd::engine::evaluate_function: MmBackward0/MmBackward0") ==
        "");
  CHECK(module_kind("Llama_0.Layer_31.Linear_7") == "Llama.Layer.Linear");
  CHECK(module_kind("blocks.3.mlp") == "blocks.*.mlp");
}

TEST_CASE("a trace of the CPU alone tells its dispatches, and how to record a GPU") {
  // linear calls t, a view, and addmm: one dispatch; the two silu are two. The last step is empty.
  Made made;
  for (int i = 0; i < 2; ++i)
    made.range("ProfilerStep#" + std::to_string(i), 1000 * i, 500)
        .op("aten::linear", 1000 * i + 10, 50, R"j("Sequence number": 5, "Fwd thread id": 0)j")
        .op("aten::t", 1000 * i + 12, 5)
        .op("aten::addmm", 1000 * i + 20, 30)
        .op("aten::silu", 1000 * i + 70, 10);
  made.range("ProfilerStep#2", 2000, 500);
  const Summary s = made.summary();
  CHECK_FALSE(s.on_gpu);
  CHECK(s.steps == 2);
  CHECK(s.whole.dispatches == 4);
  REQUIRE(s.step);
  CHECK(s.step->dispatches == 2);
  REQUIRE_FALSE(s.notes.empty());
  CHECK(test::has(s.notes[0], "ProfilerActivity.CUDA"));
  const auto linear = std::find_if(s.ops.begin(), s.ops.end(),
                                   [](const SummaryRow& o) { return o.name == "aten::linear"; });
  REQUIRE(linear != s.ops.end());
  CHECK(linear->count == 2);
  CHECK(linear->host_seconds == doctest::Approx(2 * (50 - 5 - 30) * 1e-6));

  const auto json = nlohmann::json::parse(reports::json(s));
  CHECK(json["busy_seconds"].is_null());
  CHECK(json["dispatches"] == 4);
  CHECK(json["absent"].contains("busy_seconds"));
  CHECK(test::has(reports::table(s, {}), "4 dispatches"));

  const TraceFile nothing = read_trace_bytes("{\"traceEvents\": []}", "n.json");
  CHECK_THROWS_WITH_AS(static_cast<void>(summary_of(nothing)),
                       doctest::Contains("ProfilerActivity.CUDA"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(busiest(read_trace_bytes(made.text(), "c.json"))),
                       doctest::Contains("record one of a GPU"), UserError);
}

TEST_CASE("what the reader noted is in every form of a summary") {
  const Summary s = summary_of(read_trace_bytes(
      R"([{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1,"args":{"device":0}},
          {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":-4}])",
      "t.json"));
  for (const std::string& text : {reports::table(s, {}), reports::markdown(s), reports::json(s)}) {
    CHECK(test::has(text, "negative duration"));
    CHECK(test::has(text, "launches: none in this trace"));
  }
  // And what it lacks is null, not 0.
  const auto json = nlohmann::json::parse(reports::json(s));
  CHECK(json["launches"].is_null());
  CHECK(json["idle_host_seconds"].is_null());
  CHECK(json["busy_seconds"] == doctest::Approx(1e-6));
}

TEST_CASE("the files of a folder are ranks: skew, and who computes longest") {
  const std::string path = folder("rank folder");
  for (const int rank : {2, 0, 1}) {
    Made made;
    for (int i = 0; i < 2; ++i)
      made.range("ProfilerStep#" + std::to_string(i), 1000 * i, 900)
          .kernel(gemm, 1000 * i + 1, 1000 * i + 10, 100 + 50 * rank)
          .kernel(all_gather, 1000 * i + 2, 1000 * i + 110 + 50 * rank, 300 - 50 * rank, 20);
    // The name tells the rank, or the trace itself.
    const bool told = rank == 1;
    write(path + "/" + (told ? "host_7.pt.trace.json" : "rank" + std::to_string(rank) + ".json"),
          made.text(told ? R"("distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 4},)"
                         : ""));
  }
  write(path + "/metadata.json", "{\"a\": 1}");
  write(path + "/notes.txt", "no trace");
  std::vector<std::string> left_out;
  const std::vector<Summary> each = summaries_of(trace_files(path), left_out);
  REQUIRE(each.size() == 3);
  REQUIRE(left_out.size() == 1);
  CHECK(test::has(left_out[0], "metadata.json"));
  const Ranks ranks = ranks_of(each);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(ranks.ranks[i].rank == static_cast<std::int64_t>(i));
    CHECK(ranks.ranks[i].step.compute_seconds() ==
          doctest::Approx((100 + 50 * static_cast<double>(i)) * 1e-6));
    CHECK(ranks.ranks[i].step.exposed_communication_seconds ==
          doctest::Approx((300 - 50 * static_cast<double>(i)) * 1e-6));
  }
  CHECK(ranks.slowest == 2);
  CHECK(ranks.compute_skew == doctest::Approx(100.0 / 150.0));
  REQUIRE(ranks.notes.size() == 1);
  CHECK(ranks.notes[0] == "the run had 4 ranks; 3 are here");

  const reports::RankSummaries all{path, each, ranks};
  CHECK(test::has(reports::table(all, {}), "rank 2 computes longest"));
  const std::string text = reports::json(all);
  check_schema(text);
  CHECK(nlohmann::json::parse(text)["ranks"].size() == 3);
  CHECK(reports::json(reports::ranks_from_json(text, "r.json")) ==
        reports::json(reports::RankSummaries{path, each, ranks_of(each)}));
  CHECK_THROWS_WITH_AS(static_cast<void>(trace_files(folder("empty folder"))),
                       doctest::Contains("has no file that ends in"), UserError);
}

TEST_CASE("a rank is told by a file's name in the ways that frameworks write it") {
  CHECK(rank_in_name("a/rank3.json") == 3);
  CHECK(rank_in_name("trace_rank_12_iter5.json.gz") == 12);
  CHECK(rank_in_name("rank-0.pt.trace.json") == 0);
  CHECK(rank_in_name("worker7.1699.pt.trace.json") == 7);
  CHECK_FALSE(rank_in_name("rank3/trace.json"));
  CHECK_FALSE(rank_in_name("franking.json"));
}

TEST_CASE("a summary survives its own JSON, which its schema permits") {
  for (const char* name : {"kineto_full.json", "kineto_modules.json", "kineto_torch18.json"}) {
    CAPTURE(std::string(name));
    const std::string text = reports::json(summary_of(read_trace(test::fixture_path(name))));
    check_schema(text);
    CHECK(reports::json(reports::summary_from_json(text, "s.json")) == text);
    const reports::Document again = reports::read_document(text, "s.json");
    CHECK(std::holds_alternative<Summary>(again.value));
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(reports::summary_from_json("{\"file\": 1}", "s.json")),
                       doctest::Contains("s.json: \"file\" has the wrong type"), UserError);
}

TEST_CASE("a summary is rendered in 80 columns, and harmless") {
  const std::string evil = "evil\\u001b[2J</script><b>" + std::string(200, 'x');
  Made made;
  made.range("step 1", 0, 100).range(evil, 1, 90).kernel(evil, 2, 10, 5).kernel(gemm, 60, 80, 5);
  const Summary s = made.summary();
  std::istringstream lines(reports::table(s, {}));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(reports::columns(line) <= 80);
  }
  const std::string page = reports::html({{{"t.json", s}}, {}, ""});
  for (const std::string& text : {reports::table(s, {}), reports::markdown(s), page})
    CHECK_FALSE(test::has(text, "\033"));
  CHECK_FALSE(test::has(page, "</script><b>"));
  CHECK(test::has(page, "Kernels of the whole trace"));
  CHECK(test::has(reports::csv(s), "busy_seconds"));
}
