#include "ac_advisor/trace/diagnose.hpp"

#include <doctest/doctest.h>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/trace_summary.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/trace/read.hpp"
#include "ac_advisor/trace/summary.hpp"
#include "reports/grid.hpp"
#include "trace/find.hpp"
#include "trace/kernel_kinds.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

const char* const gemm = "nvjet_hsh_128x128_64x6_1x2_h_bz_coopA_NNT";
const char* const silu = "void at::native::vectorized_elementwise_kernel<4>(int)";
const char* const slow = "void at::native::unrolled_elementwise_kernel<4>(int)";
const char* const fused = "triton_poi_fused_mul_silu_0";

struct KernelRow {
  const char* name;
  Phase phase;
  std::int64_t count, ns;  ///< a step
};

/// Two steady steps of these kernels, one after another, each phase waiting `idle` before it.
TraceFile file(const std::vector<KernelRow>& kernels, std::int64_t idle_ns,
               std::int64_t longest_gap_ns = 0) {
  TraceFile file;
  file.origin = "t";
  Trace& trace = file.processes.emplace_back();
  trace.source = "cupti";
  trace.steps.later = 2;
  for (const KernelRow& k : kernels) {
    trace.kernels.push_back({k.name, Window::later_steps, k.phase, 2 * k.count, 2 * k.ns, k.ns, 0});
    Work work;
    work.kernels = work.launches = 2 * k.count;
    work.kernel_ns = work.busy_ns = 2 * k.ns;
    work.idle_ns = 2 * idle_ns;
    work.longest_gap_ns = longest_gap_ns;
    work.long_gaps = longest_gap_ns > long_gap_ns ? 2 : 0;
    work.long_gap_ns = longest_gap_ns > long_gap_ns ? 2 * longest_gap_ns : 0;
    trace.slices.push_back({Window::later_steps, k.phase, work});
  }
  return file;
}

std::vector<KernelRow> plain() {
  return {{gemm, Phase::forward, 10, 1'000'000},
          {silu, Phase::forward, 10, 200'000},
          {gemm, Phase::backward, 20, 2'000'000},
          {silu, Phase::backward, 20, 400'000}};
}

std::vector<KernelRow> with(std::vector<KernelRow> kernels, const std::vector<KernelRow>& more) {
  kernels.insert(kernels.end(), more.begin(), more.end());
  return kernels;
}

double part(const Diagnosis& d, const std::string& name) {
  for (const OverheadPart& p : d.overhead)
    if (p.name == name) return p.seconds;
  FAIL(name);
  return 0;
}

const Finding& finding(const Diagnosis& d, std::size_t i) { return d.findings.at(i); }
constexpr std::size_t ratio = 0, bandwidth = 1, gap = 2, fusion = 3;

}  // namespace

TEST_CASE("full checkpointing with the forward's own kernels launches them once more") {
  const Diagnosis d =
      diagnose(file(plain(), 0), file(with(plain(), {{gemm, Phase::recompute, 10, 1'000'000},
                                                     {silu, Phase::recompute, 10, 200'000}}),
                                      0));
  CHECK(finding(d, ratio).value == doctest::Approx(1.0));
  CHECK(finding(d, ratio).verdict == Finding::Verdict::fine);
  CHECK_FALSE(finding(d, ratio).estimate);
  CHECK(d.overhead_seconds == doctest::Approx(1.2e-3));
  CHECK(part(d, "recomputed arithmetic") == doctest::Approx(1.0e-3));
  CHECK(part(d, "extra memory traffic") == doctest::Approx(0.2e-3));
  CHECK(part(d, "lost fusion") == doctest::Approx(0));
  CHECK(part(d, "launch latency") == doctest::Approx(0));
  CHECK(part(d, "not explained") == doctest::Approx(0));
}

TEST_CASE("a recomputation of more than 1.5 times the forward's launches is flagged") {
  for (const std::int64_t launches : {30, 31}) {
    const Diagnosis d = diagnose(
        file(plain(), 0), file(with(plain(), {{slow, Phase::recompute, launches, 600'000}}), 0));
    CHECK(finding(d, ratio).value == doctest::Approx(static_cast<double>(launches) / 20));
    const bool flagged = finding(d, ratio).verdict == Finding::Verdict::flagged;
    CHECK(flagged == (launches == 31));
    CHECK(finding(d, ratio).advice.empty() == !flagged);
  }
}

TEST_CASE("kernels that only B has, in place of fused ones, are lost fusion") {
  // The compiled forward runs one fused kernel; the recomputation runs eager ones. B's forward is
  // eager too here, so the fused one is gone from B.
  const Diagnosis d =
      diagnose(file({{fused, Phase::forward, 1, 100'000}}, 0),
               file({{slow, Phase::forward, 5, 300'000}, {slow, Phase::recompute, 5, 300'000}}, 0));
  CHECK(part(d, "lost fusion") == doctest::Approx(0.3e-3 + 0.3e-3 - 0.1e-3));
  CHECK(part(d, "extra memory traffic") == doctest::Approx(0));
}

TEST_CASE("longer idling is launch latency, and the parts add up to the overhead") {
  const Diagnosis d = diagnose(file(plain(), 10'000), file(plain(), 60'000));
  CHECK(part(d, "launch latency") == doctest::Approx(4 * 50e-6));
  double sum = 0;
  for (const OverheadPart& p : d.overhead) sum += p.seconds;
  CHECK(sum == doctest::Approx(d.overhead_seconds));
}

TEST_CASE("a gap over 50 us in the recomputation is flagged, one elsewhere is not") {
  std::vector<KernelRow> again = {{gemm, Phase::recompute, 10, 1'000'000}};
  TraceFile b = file(with(plain(), again), 0, 50'000);
  CHECK(finding(diagnose(file(plain(), 0), b), gap).verdict == Finding::Verdict::fine);
  b.processes[0].slices.back().work.longest_gap_ns = 50'001;
  CHECK(finding(diagnose(file(plain(), 0), b), gap).verdict == Finding::Verdict::flagged);
  b = file(with(plain(), again), 0, 50'000);
  b.processes[0].slices.front().work.longest_gap_ns = 90'000;  // in the forward
  CHECK(finding(diagnose(file(plain(), 0), b), gap).verdict == Finding::Verdict::fine);
}

TEST_CASE("less than 90 % of the recomputation's time in fused or captured kernels is flagged") {
  const auto share = [](std::int64_t slow_ns, std::int64_t captured) {
    TraceFile b = file(with(plain(), {{fused, Phase::recompute, 10, 500'000},
                                      {gemm, Phase::recompute, 10, 400'000},
                                      {slow, Phase::recompute, 10, slow_ns}}),
                       0);
    b.processes[0].kernels.back().captured = captured;
    return finding(diagnose(file(plain(), 0), b), fusion);
  };
  CHECK(*share(100'000, 0).value == doctest::Approx(90));
  CHECK(share(100'000, 0).verdict == Finding::Verdict::fine);
  CHECK(*share(300'000, 0).value == doctest::Approx(75));
  CHECK(share(300'000, 0).verdict == Finding::Verdict::flagged);
  // All twenty of them in a graph: all time is inside.
  CHECK(*share(300'000, 20).value == doctest::Approx(100));
}

TEST_CASE("bandwidth is measured by counters, estimated from a plan, or not at all") {
  const std::vector<KernelRow> again = {{gemm, Phase::recompute, 10, 1'000'000}};
  TraceFile b = file(with(plain(), again), 0);
  const Finding none = finding(diagnose(file(plain(), 0), b), bandwidth);
  CHECK(none.verdict == Finding::Verdict::not_measured);
  CHECK_FALSE(none.value);
  CHECK(test::has(none.advice, "--gpu-metrics-devices=all"));

  // 1.2 GB in 1 ms of kernels, of the data sheet's bandwidth.
  b.processes[0].devices = {{.id = 0, .name = "NVIDIA H200"}};
  const double peak = simulate::find_device("h200").bandwidth;
  const Finding estimated =
      finding(diagnose(file(plain(), 0), b, Prediction{"plan.json", 1.2e9}), bandwidth);
  CHECK(estimated.estimate);
  CHECK(*estimated.value == doctest::Approx(100 * 1.2e9 / 1e-3 / peak));
  CHECK(test::has(estimated.how, "estimated"));

  b.processes[0].dram_utilisation[static_cast<std::size_t>(Phase::recompute)] = 0.85;
  const Finding measured = finding(diagnose(file(plain(), 0), b), bandwidth);
  CHECK(*measured.value == doctest::Approx(85));
  CHECK(measured.verdict == Finding::Verdict::flagged);
  CHECK_FALSE(measured.estimate);
}

TEST_CASE("a Kineto trace says that it has no DRAM counters") {
  const TraceFile a = read_trace(test::fixture_path("kineto_none.json"));
  const TraceFile b = read_trace(test::fixture_path("kineto_full.json"));
  const Diagnosis d = diagnose(a, b);
  CHECK(finding(d, bandwidth).how == "not measured; a Kineto trace has no DRAM counters");
  // The fixture's second step: two kernels again, of two in the forward.
  CHECK(*finding(d, ratio).value == doctest::Approx(1.0));
  // From the recomputation's first kernel, 60 us after the forward's last.
  CHECK(*finding(d, gap).value == doctest::Approx(60));
  CHECK(finding(d, gap).verdict == Finding::Verdict::flagged);
  // gemm 100 of 160 us; the rest is element-wise
  CHECK(*finding(d, fusion).value == doctest::Approx(100.0 * 100 / 160));
  CHECK(part(d, "recomputed arithmetic") == doctest::Approx(100e-6));
  CHECK(part(d, "lost fusion") == doctest::Approx(60e-6));
  // Both steps take 1000 us on the device's clock, from copy to copy: B idles less.
  CHECK(d.overhead_seconds == doctest::Approx(0).epsilon(1e-9));
  CHECK(part(d, "launch latency") == doctest::Approx(-160e-6));
  CHECK(d.a.memory.allocated == std::int64_t{3} << 30);
}

TEST_CASE("without phases the ratio is by difference, an estimate, and without steps it is none") {
  std::vector<KernelRow> b_kernels = with(plain(), {{gemm, Phase::backward, 10, 1'000'000}});
  const Diagnosis by_difference = diagnose(file(plain(), 0), file(b_kernels, 0));
  CHECK(finding(by_difference, ratio).estimate);
  CHECK(*finding(by_difference, ratio).value == doctest::Approx(10.0 / 20));

  TraceFile a = file(plain(), 0), b = file(b_kernels, 0);
  for (TraceFile* f : {&a, &b}) {
    f->processes[0].steps = {};
    for (Slice& s : f->processes[0].slices) s.window = Window::outside;
    for (KernelTotal& k : f->processes[0].kernels) k.window = Window::outside;
  }
  const Diagnosis d = diagnose(a, b);
  CHECK(finding(d, ratio).verdict == Finding::Verdict::not_measured);
  CHECK(test::has(finding(d, ratio).how, "do not tell their steps"));
  for (Slice& s : b.processes[0].slices) s.phase = Phase::other;
  for (Slice& s : a.processes[0].slices) s.phase = Phase::other;
  const Diagnosis nothing = diagnose(a, b);
  CHECK(test::has(finding(nothing, ratio).how, "no range"));
  CHECK(test::has(finding(nothing, ratio).advice, "emit_nvtx"));
}

TEST_CASE("A and B that were exchanged, or do not match, are noticed") {
  const TraceFile none = file(plain(), 0);
  const TraceFile full = file(with(plain(), {{gemm, Phase::recompute, 10, 1'000'000}}), 0);
  std::string notes;
  for (const std::string& note : diagnose(full, none).notes) notes += note + "\n";
  CHECK(test::has(notes, "B's step is shorter than A's"));
  CHECK(test::has(notes, "A has recomputation"));
  CHECK(diagnose(none, full).notes.empty());
  CHECK_THROWS_AS(static_cast<void>(diagnose(TraceFile{.origin = "t"}, full)), UserError);
}

TEST_CASE("kernels are told by their names") {
  const struct {
    const char* name;
    KernelKind kind;
  } cases[] = {
      {gemm, KernelKind::matrix_product},
      {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", KernelKind::matrix_product},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(P)", KernelKind::matrix_product},
      {"void cublasLt::splitKreduce_kernel<32, 16, int>(P)", KernelKind::matrix_product},
      {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(P)",
       KernelKind::attention},
      {"void cutlass::device_kernel<flash::FlashAttnFwdSm90<128>>(P)", KernelKind::attention},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(P)", KernelKind::attention},
      {fused, KernelKind::fused},
      {"_rms_norm_forward_kernel", KernelKind::fused},
      {"liger_cross_entropy_kernel", KernelKind::fused},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<A>(B)",
       KernelKind::fused},
      {silu, KernelKind::pointwise},
      // Its functor's name is not what it does.
      {"void at::native::vectorized_elementwise_kernel<4, gemm_flash_functor>(int)",
       KernelKind::pointwise},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp>(P)", KernelKind::pointwise},
      {"ncclDevKernel_AllGather_RING_LL(P)", KernelKind::communication},
      {"", KernelKind::unknown},
      // rocBLAS and hipBLASLt; AOTriton and Triton's tutorial; MIOpen; Composable Kernel
      {"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0", KernelKind::matrix_product},
      {"attn_fwd.kd", KernelKind::attention},
      {"_attn_bwd", KernelKind::attention},
      {"bwd_kernel_dk_dv", KernelKind::attention},
      {"miopenSp3AsmConv_v21_1_2_gfx9_fp32_stride1", KernelKind::matrix_product},
      {"void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<P>>(A)", KernelKind::attention},
      {"void ck::kernel_gemm_xdl_cshuffle_v3<G>(A)", KernelKind::matrix_product},
      {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
       "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
       "T1_",
       KernelKind::pointwise},
      {"__amd_rocclr_copyBuffer", KernelKind::pointwise},
      // cuBLAS: what it returns has template arguments too
      {"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, "
       "(bool)0>(cublasGemvParamsEx<int>)",
       KernelKind::matrix_product},
      {"nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNN", KernelKind::matrix_product},
      {"cutlass3x_sm100_tensorop_s128x256x16gemm_bf16", KernelKind::matrix_product},
      {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<S>>(P)",
       KernelKind::matrix_product},
      {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnBwdSm90<M>>>(P)",
       KernelKind::attention},
      {"void cutlass::device_kernel<somebody::ElseKernel>(P)", KernelKind::unknown},
      // cuDNN
      {"volta_scudnn_128x64_relu_interior_nn_v1", KernelKind::matrix_product},
      {"void cudnn::winograd_nonfused::winogradForwardData4x4<float>(P)",
       KernelKind::matrix_product},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3", KernelKind::attention},
      {"void cudnn::ops::nchwToNhwcKernel<float>(P)", KernelKind::pointwise},
      // TensorRT-LLM, DeepEP, vLLM
      {"bmm_E4m3_E4m3_Fp32_t128x8x128_s6_et64x8_m64x8x32", KernelKind::matrix_product},
      {"void deep_ep::internode::dispatch<true, 8>(P)", KernelKind::communication},
      {"void deep_ep::intranode::combine<__nv_bfloat16, 8>(P)", KernelKind::communication},
      {"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(P)", KernelKind::communication},
      // Inductor: named after what was fused, or after its template
      {"triton_red_fused__to_copy_add_mm_rms_norm_3", KernelKind::fused},
      {"triton_poi_fused__scaled_dot_product_flash_attention_clone_2", KernelKind::fused},
      {"triton_tem_fused_mm_t_7", KernelKind::matrix_product},
      {"triton_tem_fused_flex_attention_backward_1", KernelKind::attention},
      // Transformer Engine
      {"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<K>(P)", KernelKind::fused},
      {"void transformer_engine::scaled_upper_triang_masked_softmax_warp_forward<h>(P)",
       KernelKind::fused},
      {"my_own_kernel(float*)", KernelKind::unknown},
  };
  for (const auto& c : cases) {
    CAPTURE(std::string(c.name));
    CHECK(kind_of(c.name) == c.kind);
  }
}

TEST_CASE("nothing is concluded from kernels of unknown names, and nothing advised") {
  // Only B has it: it might be anything.
  const Diagnosis d = diagnose(
      file(plain(), 0), file(with(plain(), {{"my_own_kernel", Phase::recompute, 5, 300'000}}), 0));
  CHECK(part(d, "kernels of unknown kind") == doctest::Approx(0.3e-3));
  for (const char* other : {"lost fusion", "extra memory traffic", "recomputed arithmetic"})
    CHECK(part(d, other) == doctest::Approx(0));
  for (const OverheadPart& p : d.overhead)
    if (p.name == "kernels of unknown kind") CHECK(p.advice.empty());
  CHECK(finding(d, fusion).verdict == Finding::Verdict::not_measured);
  CHECK(finding(d, fusion).advice.empty());
  // Beside others it is left out, and said: a third of 0.9 ms is matrix products, all that is
  // known.
  const Diagnosis part_of_it = diagnose(
      file(plain(), 0), file(with(plain(), {{gemm, Phase::recompute, 5, 600'000},
                                            {"my_own_kernel", Phase::recompute, 5, 300'000}}),
                             0));
  CHECK(finding(part_of_it, fusion).value == doctest::Approx(100));
  CHECK(test::has(finding(part_of_it, fusion).how, "0.3 ms per step in kernels of unknown names"));
}

TEST_CASE("graphs that were recorded as a whole are no reason to capture graphs") {
  // B's recomputation: 10 executions, 1 ms, none of their kernels told; a gap of 70 us before.
  TraceFile b = file(plain(), 0);
  Trace& trace = b.processes[0];
  Work work;
  work.graphs = work.launches = 20;
  work.kernel_ns = work.busy_ns = work.captured_ns = 2'000'000;
  work.long_gaps = 2;
  work.idle_ns = work.long_gap_ns = 140'000;
  work.longest_gap_ns = 70'000;
  trace.slices.push_back({Window::later_steps, Phase::recompute, work});
  trace.kernels.push_back(
      {"[CUDA graph 3]", Window::later_steps, Phase::recompute, 20, 2'000'000, 100'000, 20});
  const Diagnosis d = diagnose(file(plain(), 0), b);
  CHECK(finding(d, ratio).verdict == Finding::Verdict::not_measured);
  CHECK(test::has(finding(d, ratio).advice, "--cuda-graph-trace=node"));
  CHECK(finding(d, fusion).value == doctest::Approx(100));
  CHECK(finding(d, gap).verdict == Finding::Verdict::flagged);
  CHECK(test::has(finding(d, gap).advice, "100 % of the kernel time is in them"));
  CHECK_FALSE(test::has(finding(d, gap).advice, "capture the block"));
}

TEST_CASE("diagnose names the module and the op that recomputation spends its time in") {
  TraceFile b = file(with(plain(), {{gemm, Phase::recompute, 8, 1'000'000}}), 0);
  const std::string layers = "ProfilerStep/nn.Module: Llama_0/nn.Module: LlamaLayer_";
  const Window later = Window::later_steps;
  // Two steps: layers 0 and 1 together take 0.6 ms a step in aten::mm, 0.4 ms in aten::silu.
  b.processes[0].recomputed = {{layers + "0", "aten::mm", later, 8, 800'000},
                               {layers + "1", "aten::mm", later, 4, 400'000},
                               {layers + "0", "aten::silu", later, 4, 800'000},
                               {layers + "0", "aten::mm", Window::first_step, 9, 9'000'000}};
  const Diagnosis d = diagnose(file(plain(), 0), b);
  REQUIRE(d.hotspots.size() == 2);
  CHECK(d.hotspots[0].module == "Llama.LlamaLayer");
  CHECK(d.hotspots[0].op == "aten::mm");
  CHECK(d.hotspots[0].kernels == 6);
  CHECK(d.hotspots[0].seconds == doctest::Approx(0.6e-3));
  const std::string text = reports::table(d, {});
  CHECK(test::has(text, "most is in"));
  CHECK(test::has(text, "aten::mm"));
}

TEST_CASE("the overhead is set beside what was planned") {
  const TraceFile a = file(plain(), 0);
  const TraceFile b = file(with(plain(), {{gemm, Phase::recompute, 10, 1'000'000}}), 0);
  Prediction p;
  p.origin = "plan.json";
  p.recompute_seconds = 0.8e-3;
  p.step_seconds = 4e-3;
  const auto compared = [&](const Diagnosis& d, const std::string& name) {
    for (const Compared& c : d.compared)
      if (c.name == name) return c;
    FAIL(name);
    return Compared{};
  };
  const Diagnosis alone = diagnose(a, b, p);
  CHECK(compared(alone, "B's step").measured == doctest::Approx(4.6e-3));
  CHECK(compared(alone, "kernels of the recomputation").measured == doctest::Approx(1e-3));
  CHECK(compared(alone, "overhead, against recomputation alone").predicted ==
        doctest::Approx(0.8e-3));
  p.overhead_seconds = 0.5e-3;
  const Diagnosis both = diagnose(a, b, p);
  CHECK(compared(both, "overhead").measured == doctest::Approx(1e-3));
  CHECK(compared(both, "overhead").predicted == doctest::Approx(0.5e-3));
  CHECK(test::has(reports::table(both, {}), "+100 %"));
  CHECK(diagnose(a, b).compared.empty());
}

TEST_CASE("what the readers noted reaches whoever reads the diagnosis") {
  TraceFile a = file(plain(), 0), b = a;
  a.processes[0].notes = {"7 events of a negative duration were left out", "of both"};
  b.processes[0].notes = {"of both"};
  const Diagnosis d = diagnose(a, b);
  CHECK(d.notes == std::vector<std::string>{"A: 7 events of a negative duration were left out",
                                            "A and B: of both"});
  for (const std::string& text :
       {reports::table(d, {}), reports::markdown(d), reports::csv(d), reports::json(d)})
    CHECK(test::has(text, "negative duration"));
}

TEST_CASE("a diagnosis survives its own JSON") {
  TraceFile b = file(with(plain(), {{slow, Phase::recompute, 31, 600'000}}), 0, 70'000);
  b.processes[0].recomputed = {{"step/blocks.3", "aten::mm", Window::later_steps, 4, 400'000}};
  b.processes[0].notes = {"a note"};
  Prediction p{"plan.json", 1e9, 1e-3, 4e-3, {}, "estimated"};
  const std::string text = reports::json(diagnose(file(plain(), 0), b, p));
  CHECK(reports::json(reports::diagnosis_from_json(text, "d.json")) == text);
  CHECK_THROWS_WITH_AS(static_cast<void>(reports::diagnosis_from_json("{}", "d.json")),
                       doctest::Contains("d.json lacks \"a\""), UserError);
}

TEST_CASE("names of the driver lead to the device files, whose bandwidth they have") {
  CHECK(known_device("NVIDIA H100 80GB HBM3") == "h100-80gb");
  CHECK(known_device("NVIDIA H100 PCIe") == "h100-pcie");
  CHECK(known_device("NVIDIA H200") == "h200");
  CHECK(known_device("NVIDIA A100-SXM4-80GB") == "a100-80gb");
  CHECK(known_device("NVIDIA A100-SXM4-40GB") == "a100-40gb");
  CHECK(known_device("NVIDIA GeForce RTX 4090") == "rtx-4090");
  CHECK_FALSE(known_device("Quadro T400"));
  for (const char* name :
       {"NVIDIA H100 80GB HBM3", "NVIDIA B200", "NVIDIA L40S", "NVIDIA H100 NVL"})
    CHECK(simulate::find_device(known_device(name).value()).bandwidth > 0);
}

TEST_CASE("a diagnosis is rendered whole, in 80 columns, and harmless") {
  TraceFile b =
      file(with(plain(), {{"evil\033[2J|`<b>", Phase::recompute, 99, 1'000'000}}), 0, 70'000);
  b.origin = "b\n\033[31m|x.json";
  b.processes[0].gaps = {{0, 70'000, 0, Window::later_steps, Phase::recompute, "r", "k",
                          "evil\033[2J" + std::string(300, 'x')}};
  const Diagnosis d = diagnose(file(plain(), 0), b);
  const std::string table = reports::table(d, {});
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(reports::columns(line) <= 80);
  }
  for (const OverheadPart& p : d.overhead) CHECK(test::has(table, p.name));
  for (const Finding& f : d.findings) CHECK(test::has(table, f.name));
  CHECK(test::has(table, "FLAGGED"));
  for (const std::string& text : {table, reports::markdown(d), reports::json(d)})
    CHECK_FALSE(test::has(text, "\033"));
  CHECK(test::has(reports::csv(d), "launch ratio"));
  const std::string summary = reports::table(summary_of(b), {});
  CHECK_FALSE(test::has(summary, "\033"));
  CHECK(test::has(summary, "recompute"));
}
