#include "emulator/cudnn/plan.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using emulator::cudnn::kernels_of_plan;

namespace {

std::string tensor(const std::string& dim, bool inside = false) {
  return R"({"dim":[)" + dim + R"(],"isVirtual":)" + (inside ? "true" : "false") + "}";
}

/// A plan as cuDNN 9.19 writes it, shortened: queries of 32 heads, keys of `key_heads`; with a mask
/// of one head for all where `masked`.
std::string attention(const std::string& kernel, int key_heads, bool masked = false) {
  return R"({"operationGraph":{"finalizeMode":"SDPA","tensors":[)" + tensor("8,32,2048,64") + "," +
         tensor("8," + std::to_string(key_heads) + ",64,2048") + "," +
         (masked ? tensor("8,1,2048,2048") + "," : "") + tensor("8,32,2048,2048", true) + "," +
         tensor("1,1,1,1") + "," + tensor("8,32,2048,1") +
         R"(]},"engine":{"engineId":6,"knobChoices":{"A":26},"payload":{"kernels":[{"kernelName":")" +
         kernel + R"("}]}}})";
}

}  // namespace

TEST_CASE("a plan's kernels are those that it names") {
  CHECK(kernels_of_plan(attention("sm90_flash_fprop_wgmma", 32)) ==
        std::vector<std::string>{"sm90_flash_fprop_wgmma"});
}

TEST_CASE("attention's backward has cuDNN's precompiled kernels around it") {
  const std::vector<std::string> plain{"cudnn::fusion::compute_dot_do_o_specialized",
                                       "sm90_flash_bprop_wgmma",
                                       "cudnn::fusion::convert_dq_to_16bits"};
  CHECK(kernels_of_plan(attention("sm90_flash_bprop_wgmma", 32)) == plain);
  SUBCASE("a mask's one head is none of the keys'") {
    CHECK(kernels_of_plan(attention("sm90_flash_bprop_wgmma", 32, true)) == plain);
  }
  SUBCASE("and adds dK and dV of grouped queries up") {
    std::vector<std::string> grouped = plain;
    grouped.insert(grouped.end(), 2, "cudnn::fusion::fmha_reduce_head");
    CHECK(kernels_of_plan(attention("sm90_flash_bprop_wgmma", 8)) == grouped);
    CHECK(kernels_of_plan(attention("sm90_flash_bprop_wgmma", 8, true)) == grouped);
    CHECK(kernels_of_plan(attention("sm90_flash_bprop_wgmma", 1, true)) == grouped);
  }
}

TEST_CASE("a plan of precompiled kernels is one, by its engine") {
  CHECK(kernels_of_plan(R"({"operationGraph":{"tensors":[]},"engine":{"engineId":45,)"
                        R"("smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_STAGES":3}}})") ==
        std::vector<std::string>{R"(cudnn engine 45 "CUDNN_KNOB_TYPE_STAGES":3)"});
}
