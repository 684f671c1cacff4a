// A program that uses CUDA as far as a machine without a driver goes: it loads what
// CUDA_INJECTION64_PATH names, as cuInit does, and launches through the fake libcupti.
// fake_cuda_program FAKE_LIBCUPTI step|fork|_exit CODE
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void cu_init() {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return;
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  if (library != nullptr) function<int()>(library, "InitializeInjection")();
}

void step(void* cupti, int number) {
  auto* const launch =
      function<void(const char*, std::uint64_t, std::uint64_t)>(cupti, "fake_launch");
  auto* const copy =
      function<void(std::uint64_t, std::uint64_t, std::uint64_t)>(cupti, "fake_copy");
  const std::uint64_t base = 1'000'000ULL * static_cast<std::uint64_t>(number);
  nvtxRangePushA(("step " + std::to_string(number)).c_str());
  copy(base + 1000, base + 2000, 4096);
  nvtxRangePushA("forward");
  nvtxRangePushA("layers.0");
  launch("_Z4gemmi", base + 10'000, base + 110'000);
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangePushA("backward");
  std::thread([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    nvtxRangePushA("layers.0");
    launch("_Z4gemmi", base + 200'000, base + 300'000);
    nvtxRangePop();
    launch("_Z4gradi", base + 300'000, base + 450'000);
  }).join();
  nvtxRangePop();
  nvtxRangePop();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  const std::string what = argv[2];
  const int code = std::atoi(argv[3]);
  void* const cupti = dlopen(argv[1], RTLD_NOW);
  if (cupti == nullptr) return 65;
  cu_init();
  function<void(std::uint64_t, std::uint64_t)>(cupti, "fake_allocate")(0x1000, 12345);
  step(cupti, 1);
  step(cupti, 2);
  std::puts("the program's own output");
  std::fflush(stdout);
  if (what == "_exit") ::_exit(code);
  if (what == "fork") {
    const pid_t child = ::fork();
    if (child == 0) {
      nvtxRangePushA("in the child");
      nvtxRangePop();
      std::exit(0);
    }
    ::waitpid(child, nullptr, 0);
  }
  return code;
}
