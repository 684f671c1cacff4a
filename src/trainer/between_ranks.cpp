#include "trainer/between_ranks.hpp"

#include <algorithm>
#include <cstring>

#include "trainer/kernels/kernels.hpp"
#include "trainer/mesh.hpp"

namespace ac_advisor::trainer {
namespace {

/// Beyond the tags of a step's messages.
constexpr std::int32_t first_tag = 1 << 28;

std::vector<std::string> names_of(const Built& built) {
  std::vector<std::string> names;
  for (const std::size_t i : built.trained) names.push_back(built.parameters[i].name);
  return names;
}

}  // namespace

std::vector<profile::RankMemory> peaks_of_ranks(const Built& built, const profile::Memory& own,
                                                Collectives& collectives) {
  const MemoryTracker::Scope outside(nullptr);
  const StepConfig& c = built.config;
  const at::Tensor all = at::zeros({collectives.world()}, at::kLong);
  all[collectives.rank()] = own.peak_allocated;
  complete(collectives.all_gather(all, collectives.all()));
  std::vector<profile::RankMemory> ranks;
  for (std::int64_t r = 0; r < collectives.world(); ++r) {
    profile::RankMemory of;
    of.pp_rank = Mesh(c.layout, r).pp_rank();
    of.cp_rank = Mesh(c.layout, r).cp_rank();
    for (std::int64_t chunk = 0; chunk < c.layout.pp_chunks; ++chunk)
      of.stages.push_back(chunk * c.layout.pp + of.pp_rank);
    of.peak_allocated = all[r].item<std::int64_t>();
    const auto alike = std::find_if(ranks.begin(), ranks.end(), [&](const auto& other) {
      return other.pp_rank == of.pp_rank && other.cp_rank == of.cp_rank &&
             other.peak_allocated == of.peak_allocated;
    });
    of.count = 1;
    if (alike == ranks.end())
      ranks.push_back(of);
    else
      ++alike->count;
  }
  return ranks;
}

std::vector<NamedGradient> gradients_of_stages(const Built& built, std::vector<at::Tensor> own,
                                               Collectives& collectives) {
  const MemoryTracker::Scope outside(nullptr);
  const StepConfig& c = built.config;
  const Mesh mesh(c.layout, collectives.rank());
  std::vector<NamedGradient> all;
  const auto append = [&](const std::vector<std::string>& names, std::vector<at::Tensor> tensors) {
    for (std::size_t i = 0; i < names.size(); ++i) all.push_back({names[i], std::move(tensors[i])});
  };
  const auto messages = [&](const std::vector<at::Tensor>& tensors, std::int64_t peer, bool sends) {
    std::vector<Transfer> batch;
    for (const at::Tensor& tensor : tensors)
      batch.push_back({tensor, peer, first_tag + static_cast<std::int32_t>(batch.size()), sends});
    complete(collectives.exchange(batch));
  };
  if (collectives.rank() == 0) {
    append(names_of(built), std::move(own));
    for (std::int64_t stage = 1; stage < c.layout.pp; ++stage) {
      StepConfig other = c;
      other.layout.pp_rank = stage;
      const auto theirs = build(built.spec, other);
      std::vector<at::Tensor> tensors;
      for (std::size_t i = 0; i < theirs->trained.size(); ++i) {
        const ir::ValueId gradient = theirs->step.optimized[i].gradient;
        tensors.push_back(at::empty(theirs->parameters[theirs->trained[i]].shape,
                                    scalar_type(theirs->step.program.value(gradient).dtype)));
      }
      messages(tensors, mesh.in_stage(stage), /*sends=*/false);
      append(names_of(*theirs), std::move(tensors));
    }
  } else if (mesh.pp_rank() > 0 && mesh.in_stage(0) == 0) {
    for (at::Tensor& tensor : own) tensor = tensor.contiguous();
    messages(own, 0, /*sends=*/true);
  }
  return all;
}

std::string text_to_first(const std::string& own, std::int64_t from, Collectives& collectives) {
  const MemoryTracker::Scope outside(nullptr);
  if (from == 0) return own;
  const bool sends = collectives.rank() == from;
  const std::int64_t peer = sends ? 0 : from;
  const at::Tensor size = at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong);
  complete(collectives.exchange({{size, peer, first_tag, sends}}));
  const at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (sends) std::memcpy(bytes.mutable_data_ptr(), own.data(), own.size());
  complete(collectives.exchange({{bytes, peer, first_tag + 1, sends}}));
  return {static_cast<const char*>(bytes.const_data_ptr()),
          static_cast<std::size_t>(bytes.numel())};
}

}  // namespace ac_advisor::trainer
