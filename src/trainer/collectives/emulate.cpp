#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {
namespace {

/// One rank of W, alone: every buffer has its size, every peer's part is a copy of this rank's.
class Emulated final : public Collectives {
 public:
  Emulated(std::int64_t world, std::int64_t rank) : world_(world), rank_(rank) {}
  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t world() const override { return world_; }
  [[nodiscard]] bool real() const override { return world_ == 1; }

  std::unique_ptr<Pending> all_gather(at::Tensor buffer, const Group& group) override {
    const std::int64_t part = buffer.numel() / group.size, own = group.place_of(rank_);
    const at::Tensor flat = buffer.view({-1}), mine = flat.narrow(0, own * part, part);
    for (std::int64_t r = 0; r < group.size; ++r)
      if (r != own) flat.narrow(0, r * part, part).copy_(mine);
    return nullptr;
  }
  std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input, at::Tensor output, const Group&,
                                          Combine) override {
    output.view({-1}).copy_(input.view({-1}).narrow(0, 0, output.numel()));
    return nullptr;
  }
  std::unique_ptr<Pending> all_reduce(at::Tensor, const Group&, Combine) override {
    return nullptr;
  }
  std::unique_ptr<Pending> all_to_all(const at::Tensor& input, at::Tensor output,
                                      const Group& group) override {
    output.view({group.size, -1}).copy_(input.view({group.size, -1})[group.place_of(rank_)]);
    return nullptr;
  }
  std::unique_ptr<Pending> exchange(const std::vector<Transfer>& batch) override {
    for (const Transfer& t : batch)
      if (!t.sends) t.tensor.zero_();
    return nullptr;
  }
  void barrier() override {}
  void abort(const std::string&) override {}

 private:
  std::int64_t world_, rank_;
};

}  // namespace

std::unique_ptr<Collectives> make_single() { return std::make_unique<Emulated>(1, 0); }
std::unique_ptr<Collectives> make_emulated(std::int64_t world, std::int64_t rank) {
  return std::make_unique<Emulated>(world, rank);
}

}  // namespace ac_advisor::trainer
