#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/answer.hpp"
#include "emulator/copy.hpp"
#include "emulator/graph.hpp"
#include "emulator/kernel.hpp"
#include "emulator/nccl/communicator.hpp"

/// Collectives in which all ranks hold what this one holds. Small buffers get the values that
/// follow (counts that steer code), larger ones keep what was there.
namespace emulator::nccl {
namespace {

constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  ///< ncclDataType_t
constexpr int int32 = 2, uint32 = 3, int64 = 4, uint64 = 5, float32 = 7, float64 = 8;
constexpr int sum = 0;  ///< ncclRedOp_t; of equal values prod is rare, min, max, avg change nothing

std::size_t size_of(int type) {
  return type >= 0 && type < static_cast<int>(std::size(sizes)) ? sizes[type] : 1;
}

template <typename T>
void multiply(void* values, std::size_t count, int factor) {
  auto* v = static_cast<T*>(values);
  for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<T>(v[i] * static_cast<T>(factor));
}

void add_equal_ranks(void* values, std::size_t count, int type, int op, int ranks) {
  if (op != sum) return;
  switch (type) {
    case int32:
      return multiply<std::int32_t>(values, count, ranks);
    case uint32:
      return multiply<std::uint32_t>(values, count, ranks);
    case int64:
      return multiply<std::int64_t>(values, count, ranks);
    case uint64:
      return multiply<std::uint64_t>(values, count, ranks);
    case float32:
      return multiply<float>(values, count, ranks);
    case float64:
      return multiply<double>(values, count, ranks);
    default:
      return;
  }
}

thread_local int depth = 0;
thread_local std::set<std::pair<const void*, const void*>> in_group;

/// Collectives of a group on one communicator and stream are one kernel.
void count(const char* name, Communicator* comm, void* stream) {
  if (depth > 0 && !in_group.emplace(comm, stream).second) return;
  launch(*library_kernel(name), stream);
}

/// Of the group: broadcasts of all ranks in turn are an all-gather (PyTorch 2.15, of a list of
/// tensors), and what another rank sends is what this one sends.
thread_local std::string own_broadcast;
thread_local std::vector<std::pair<void*, std::size_t>> awaited;

void deliver_broadcasts() {
  for (const auto& [to, bytes] : awaited)
    if (own_broadcast.size() == bytes) std::memcpy(to, own_broadcast.data(), bytes);
  awaited.clear();
  own_broadcast.clear();
}

bool small(std::size_t bytes, const void* stream) {
  return bytes <= copy_limit() && capture_of(stream) == nullptr;
}

}  // namespace

ANSWER int ncclGroupStart() {
  ++depth;
  return success;
}
ANSWER int ncclGroupEnd() {
  if (depth > 0 && --depth == 0) {
    in_group.clear();
    deliver_broadcasts();
  }
  return success;
}
ANSWER int ncclGroupSimulateEnd(void*) { return ncclGroupEnd(); }

ANSWER int ncclAllReduce(const void* from, void* to, std::size_t n, int type, int op,
                         Communicator* comm, void* stream) {
  count("ncclDevKernel_AllReduce", comm, stream);
  const std::size_t bytes = n * size_of(type);
  if (!small(bytes, stream)) return success;
  std::memmove(to, from, bytes);
  add_equal_ranks(to, n, type, op, comm->ranks);
  return success;
}
ANSWER int ncclReduce(const void* from, void* to, std::size_t n, int type, int op, int root,
                      Communicator* comm, void* stream) {
  count("ncclDevKernel_Reduce", comm, stream);
  const std::size_t bytes = n * size_of(type);
  if (root != comm->rank || !small(bytes, stream)) return success;
  std::memmove(to, from, bytes);
  add_equal_ranks(to, n, type, op, comm->ranks);
  return success;
}
ANSWER int ncclBroadcast(const void* from, void* to, std::size_t n, int type, int root,
                         Communicator* comm, void* stream) {
  count("ncclDevKernel_Broadcast", comm, stream);
  const std::size_t bytes = n * size_of(type);
  if (!small(bytes, stream)) return success;
  if (root == comm->rank) std::memmove(to, from, bytes);
  if (depth > 0 && root == comm->rank) own_broadcast.assign(static_cast<const char*>(to), bytes);
  if (depth > 0 && root != comm->rank) awaited.emplace_back(to, bytes);
  return success;
}
ANSWER int ncclBcast(void* buffer, std::size_t n, int type, int root, Communicator* comm,
                     void* stream) {
  return ncclBroadcast(buffer, buffer, n, type, root, comm, stream);
}
ANSWER int ncclAllGather(const void* from, void* to, std::size_t n, int type, Communicator* comm,
                         void* stream) {
  count("ncclDevKernel_AllGather", comm, stream);
  const std::size_t bytes = n * size_of(type), ranks = static_cast<std::size_t>(comm->ranks);
  if (!small(bytes * ranks, stream)) return success;
  const std::string own(static_cast<const char*>(from), bytes);  // it may lie inside `to`
  for (std::size_t r = 0; r < ranks; ++r)
    std::memcpy(static_cast<char*>(to) + r * bytes, own.data(), bytes);
  return success;
}
ANSWER int ncclReduceScatter(const void* from, void* to, std::size_t n, int type, int op,
                             Communicator* comm, void* stream) {
  count("ncclDevKernel_ReduceScatter", comm, stream);
  const std::size_t bytes = n * size_of(type);
  if (!small(bytes, stream)) return success;
  std::memmove(to, static_cast<const char*>(from) + static_cast<std::size_t>(comm->rank) * bytes,
               bytes);
  add_equal_ranks(to, n, type, op, comm->ranks);
  return success;
}
ANSWER int ncclAlltoAll(const void* from, void* to, std::size_t n, int type, Communicator* comm,
                        void* stream) {
  count("ncclDevKernel_AllToAll", comm, stream);
  const std::size_t bytes = n * size_of(type) * static_cast<std::size_t>(comm->ranks);
  if (small(bytes, stream)) std::memmove(to, from, bytes);
  return success;
}

namespace {

/// The last small message of this thread's group: all-to-all is made of sends and receives, and
/// what another rank sends is what this one sends.
thread_local std::string sent;

}  // namespace

ANSWER int ncclSend(const void* from, std::size_t n, int type, int, Communicator* comm,
                    void* stream) {
  count("ncclDevKernel_SendRecv", comm, stream);
  const std::size_t bytes = n * size_of(type);
  if (small(bytes, stream)) sent.assign(static_cast<const char*>(from), bytes);
  return success;
}
ANSWER int ncclRecv(void* to, std::size_t n, int type, int, Communicator* comm, void* stream) {
  count("ncclDevKernel_SendRecv", comm, stream);
  const std::size_t bytes = n * size_of(type);
  if (sent.size() == bytes && small(bytes, stream)) std::memcpy(to, sent.data(), bytes);
  return success;
}

}  // namespace emulator::nccl
