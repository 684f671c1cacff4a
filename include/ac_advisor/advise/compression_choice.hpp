#pragma once

#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::advise {

/// One way of sending DistributedDataParallel's gradients, over one network.
struct CompressedStep {
  double seconds = 0;  ///< an estimate; 0: refused
  bool fits = false;
  std::string refused;  ///< why it is not planned, and the way out; empty: it is
};

/// Over one network, a step for each of CompressionChoice::hooks.
struct NetworkRow {
  std::string network;  ///< "hdr"; "links": ranks of one node, which no network joins
  double gbps = 0;      ///< of one GPU; 0: links
  std::vector<CompressedStep> steps;
  std::size_t best = 0;  ///< of those that fit; 0 (none) where no other is a hundredth faster
};

/// What `advise --grad-compression auto` answers: where compressed gradients make a step faster.
struct CompressionChoice {
  model::ModelSpec model;
  StepConfig base;
  std::vector<std::string> hooks;       ///< values of --grad-compression, none first
  std::vector<profile::Memory> memory;  ///< of each hook; of a refused one nothing
  std::vector<NetworkRow> rows;         ///< the slowest network first
  std::string answer;                   ///< sentences
};

/// `by_hand`: options without --grad-compression, and with --network if it is that one alone that
/// is asked about. Throws UserError where they are not of DistributedDataParallel.
[[nodiscard]] CompressionChoice compression_choice(const model::ModelSpec& model,
                                                   const OptionList& by_hand);

}  // namespace ac_advisor::advise
