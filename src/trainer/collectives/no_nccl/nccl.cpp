// Stands in ac-trainer, which links no CUDA; ac-trainer-cuda has nccl/nccl.cpp in its place.
#include "ac_advisor/model/error.hpp"
#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {

void require_nccl() {
  throw UserError(
      "--collectives nccl: this program runs on CPUs and has no NCCL; ac-trainer-cuda has, which "
      "is "
      "built where a CUDA 13 toolkit is found. Give --gpu a CUDA device, or --collectives procs");
}

std::unique_ptr<Collectives> make_nccl(const Rendezvous&, double) {
  require_nccl();
  return nullptr;
}

}  // namespace ac_advisor::trainer
