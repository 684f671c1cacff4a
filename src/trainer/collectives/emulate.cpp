#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {
namespace {

/// Rank 0 of W, alone: every buffer has its size, every peer's part is a copy of this rank's.
class Emulated final : public Collectives {
 public:
  explicit Emulated(std::int64_t world) : world_(world) {}
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t world() const override { return world_; }
  [[nodiscard]] bool real() const override { return world_ == 1; }

  std::unique_ptr<Pending> all_gather(at::Tensor buffer, std::int64_t group) override {
    const std::int64_t part = buffer.numel() / group;
    for (std::int64_t r = 1; r < group; ++r)
      buffer.narrow(0, r * part, part).copy_(buffer.narrow(0, 0, part));
    return nullptr;
  }
  std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input, at::Tensor output,
                                          std::int64_t) override {
    output.copy_(input.narrow(0, 0, output.numel()));
    return nullptr;
  }
  std::unique_ptr<Pending> all_reduce(at::Tensor, std::int64_t) override { return nullptr; }
  void barrier() override {}
  void abort(const std::string&) override {}

 private:
  std::int64_t world_;
};

}  // namespace

std::unique_ptr<Collectives> make_single() { return std::make_unique<Emulated>(1); }
std::unique_ptr<Collectives> make_emulated(std::int64_t world) {
  return std::make_unique<Emulated>(world);
}

}  // namespace ac_advisor::trainer
