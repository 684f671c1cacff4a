// This program is built without CUDA.
#include "trainer/backend/backend.hpp"
#include "ac_advisor/model/error.hpp"

namespace ac_advisor::trainer {

std::unique_ptr<Backend> make_cuda_backend(std::int64_t, bool) {
  throw UserError("this program runs on CPUs; GPUs are for ac-trainer-cuda");
}

}  // namespace ac_advisor::trainer
