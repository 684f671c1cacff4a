#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "emulator/answer.hpp"
#include "emulator/device.hpp"
#include "emulator/loaded.hpp"
#include "emulator/memory.hpp"
#include "emulator/nccl/communicator.hpp"
#include "emulator/record.hpp"

/// NCCL by its binary interface (nccl.h 2.28).
namespace emulator::nccl {
namespace {

struct UniqueId {
  char bytes[128];
};
thread_local int ranks_of_split = 0;
constexpr int nccl_version = 22809;  ///< where the program brings none

int make(Communicator** out, int ranks, int rank) {
  if (out == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return invalid_argument;
  record::touch();
  note_once("NCCL's own buffers on the device are not counted");
  *out = new Communicator{rank, ranks, current_device()};
  return success;
}

}  // namespace

ANSWER int ncclGetVersion(int* version) {
  static const auto own =
      reinterpret_cast<int (*)(int*)>(own_function("libnccl.so.2", "ncclGetVersion"));
  if (own != nullptr) return own(version);
  *version = nccl_version;
  return success;
}
ANSWER int ncclGetUniqueId(UniqueId* id) {
  std::memset(id, 0x5a, sizeof *id);
  return success;
}
ANSWER const char* ncclGetErrorString(int result) {
  return result == success ? "no error" : "invalid argument";
}
ANSWER const char* ncclGetLastError(Communicator*) { return ""; }

ANSWER int ncclCommInitRank(Communicator** comm, int ranks, UniqueId, int rank) {
  return make(comm, ranks, rank);
}
ANSWER int ncclCommInitRankConfig(Communicator** comm, int ranks, UniqueId, int rank, void*) {
  return make(comm, ranks, rank);
}
ANSWER int ncclCommInitRankScalable(Communicator** comm, int ranks, int rank, int, UniqueId*,
                                    void*) {
  return make(comm, ranks, rank);
}
ANSWER int ncclCommInitAll(Communicator** comms, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    make(&comms[i], count, i);
    comms[i]->device = devices == nullptr ? i : devices[i];
  }
  return success;
}
/// The ranks of the next communicator that this thread splits off: the program's Python knows them.
ANSWER void ac_advisor_emulator_split_into(int ranks) { ranks_of_split = ranks; }

/// Who shares the color is known by the others alone. The key is the new rank, as PyTorch gives it.
ANSWER int ncclCommSplit(Communicator* comm, int color, int key, Communicator** out, void*) {
  constexpr int no_color = -1;
  const int told = std::exchange(ranks_of_split, 0);
  if (color == no_color) {
    *out = nullptr;
    return success;
  }
  if (told > 0) return make(out, told, key);
  note_once("a communicator was split: the new one is taken to have all ranks of the old one");
  return make(out, comm->ranks, comm->rank);
}
ANSWER int ncclCommShrink(Communicator* comm, int*, int excluded, Communicator** out, void*, int) {
  return make(out, comm->ranks - excluded, comm->rank);
}
ANSWER int ncclCommDestroy(Communicator* comm) {
  delete comm;
  return success;
}
ANSWER int ncclCommAbort(Communicator* comm) { return ncclCommDestroy(comm); }
ANSWER int ncclCommFinalize(Communicator*) { return success; }
ANSWER int ncclCommGetAsyncError(Communicator*, int* error) {
  *error = success;
  return success;
}
ANSWER int ncclCommCount(Communicator* comm, int* count) {
  *count = comm->ranks;
  return success;
}
ANSWER int ncclCommUserRank(Communicator* comm, int* rank) {
  *rank = comm->rank;
  return success;
}
ANSWER int ncclCommCuDevice(Communicator* comm, int* device) {
  *device = comm->device;
  return success;
}
ANSWER int ncclCommRegister(Communicator*, void*, std::size_t, void** handle) {
  *handle = nullptr;
  return success;
}
ANSWER int ncclCommDeregister(Communicator*, void*) { return success; }
ANSWER int ncclCommWindowRegister(Communicator*, void*, std::size_t, void** window, int) {
  *window = nullptr;
  return success;
}
ANSWER int ncclCommWindowDeregister(Communicator*, void*) { return success; }
ANSWER int ncclRedOpCreatePreMulSum(int* op, void*, int, int, Communicator*) {
  *op = 0;
  return success;
}
ANSWER int ncclRedOpDestroy(int, Communicator*) { return success; }
ANSWER int ncclMemAlloc(void** pointer, std::size_t bytes) {
  *pointer = memory::allocate(bytes, current_device());
  return *pointer == nullptr ? 1 : success;  // ncclUnhandledCudaError
}
ANSWER int ncclMemFree(void* pointer) {
  memory::release(pointer);
  return success;
}

}  // namespace emulator::nccl
