#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <pthread.h>

#include <cstdint>
#include <thread>
#include <vector>

// NCCL's functions by their binary interface, as src/emulator/nccl/ defines them.
struct UniqueId {
  char bytes[128];
};
extern "C" {
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank);
int ncclCommDestroy(void* comm);
int ncclAllReduce(const void*, void*, std::size_t, int type, int op, void* comm, void* stream);
int ncclAllGather(const void*, void*, std::size_t, int type, void* comm, void* stream);
int ncclReduceScatter(const void*, void*, std::size_t, int type, int op, void* comm, void* stream);
int ncclBroadcast(const void*, void*, std::size_t, int type, int root, void* comm, void* stream);
int ncclCommSplit(void* comm, int color, int key, void** out, void* config);
int ncclCommCount(void* comm, int* count);
int ncclCommUserRank(void* comm, int* rank);
int ncclGroupStart();
int ncclGroupEnd();
void ac_advisor_emulator_counts(std::uint64_t* out);
void ac_advisor_emulator_hold_watchdog(int on);
void ac_advisor_emulator_split_into(int ranks);
}

namespace {

constexpr int int64_type = 4, sum = 0;

std::uint64_t kernels() {
  std::uint64_t counts[12] = {};
  ac_advisor_emulator_counts(counts);
  return counts[0];
}

}  // namespace

TEST_CASE("while it is held, nothing that NCCL's watchdog asks for has ended") {
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, nullptr) == cudaSuccess);
  cudaError_t held = cudaSuccess, after = cudaErrorNotReady;
  ac_advisor_emulator_hold_watchdog(1);
  std::thread watchdog([&] {
    pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
    held = cudaEventQuery(event);
    ac_advisor_emulator_hold_watchdog(0);
    after = cudaEventQuery(event);
  });
  CHECK(cudaEventQuery(event) == cudaSuccess);  // another thread's, held or not
  watchdog.join();
  CHECK(held == cudaErrorNotReady);
  CHECK(after == cudaSuccess);
  cudaEventDestroy(event);
}

TEST_CASE("small counts are reduced and gathered as if all ranks held the same") {
  void* comm = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 4, {}, 2) == 0);
  std::int64_t* device = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&device), 800) == cudaSuccess);
  for (int i = 0; i < 8; ++i) device[i] = i + 1;
  REQUIRE(ncclAllReduce(device, device, 2, int64_type, sum, comm, nullptr) == 0);
  CHECK(device[0] == 4);
  CHECK(device[1] == 8);
  REQUIRE(ncclReduceScatter(device, device + 20, 2, int64_type, sum, comm, nullptr) == 0);
  CHECK(device[20] == 4 * 5);  // rank 2's part begins at the fifth
  REQUIRE(ncclAllGather(device + 4, device + 40, 1, int64_type, comm, nullptr) == 0);
  for (int rank = 0; rank < 4; ++rank) CHECK(device[40 + rank] == 5);
  CHECK(ncclCommInitRank(&comm, 4, {}, 4) != 0);
  cudaFree(device);
}

TEST_CASE("the collectives of a group are one kernel") {
  void* comm = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 2, {}, 0) == 0);
  std::vector<std::int64_t> values(4);
  const std::uint64_t before = kernels();
  ncclGroupStart();
  for (int i = 0; i < 3; ++i)
    ncclAllReduce(values.data(), values.data(), 1, int64_type, sum, comm, nullptr);
  ncclGroupEnd();
  CHECK(kernels() == before + 1);
  CHECK(ncclCommDestroy(comm) == 0);
}

TEST_CASE("broadcasts of all ranks in one group gather what this rank has") {
  void* comm = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 4, {}, 2) == 0);
  std::vector<std::int64_t> gathered(4);
  gathered[2] = 7;
  ncclGroupStart();
  for (int root = 0; root < 4; ++root)
    ncclBroadcast(&gathered[root], &gathered[root], 1, int64_type, root, comm, nullptr);
  ncclGroupEnd();
  CHECK(gathered == std::vector<std::int64_t>(4, 7));
  std::int64_t alone = 5;  // of another rank, outside a group: as it was
  ncclBroadcast(&alone, &alone, 1, int64_type, 0, comm, nullptr);
  CHECK(alone == 5);
  CHECK(ncclCommDestroy(comm) == 0);
}

TEST_CASE("a communicator that is split off has as many ranks as the program says, and the key") {
  void *comm = nullptr, *part = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 8, {}, 5) == 0);
  int ranks = 0, rank = 0;
  ac_advisor_emulator_split_into(4);
  REQUIRE(ncclCommSplit(comm, 1, 1, &part, nullptr) == 0);
  CHECK(ncclCommCount(part, &ranks) == 0);
  CHECK(ncclCommUserRank(part, &rank) == 0);
  CHECK(ranks == 4);
  CHECK(rank == 1);
  ncclCommDestroy(part);
  REQUIRE(ncclCommSplit(comm, 1, 1, &part, nullptr) == 0);  // of which nothing is told
  CHECK(ncclCommCount(part, &ranks) == 0);
  CHECK(ranks == 8);
  ncclCommDestroy(part);
  ncclCommDestroy(comm);
}
