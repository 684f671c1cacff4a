#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "ac_advisor/model/error.hpp"
#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {
namespace {

/// How a launcher tells a process who it is.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
};
// torch.distributed.run's documentation; Slurm's srun(1); Open MPI's mpirun(1).
constexpr Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};

std::int64_t number(const char* name, std::int64_t low, std::int64_t high) {
  const std::string text = std::getenv(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    throw UserError(std::string(name) + "=" + text + ": must be a whole number from " +
                    std::to_string(low) + " to " + std::to_string(high));
  return value;
}

}  // namespace

void reserve_port(Rendezvous& where) {
  where.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(where.listening, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(where.listening, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw UserError(std::string("no port of this machine is free for the ranks to meet at: ") +
                    std::strerror(errno));
  where.port = ntohs(address.sin_port);
}

Rendezvous rendezvous_from_environment() {
  Rendezvous where;
  for (const Launcher& launcher : launchers) {
    const bool rank = std::getenv(launcher.rank) != nullptr,
               world = std::getenv(launcher.world) != nullptr;
    if (!rank && !world) continue;
    if (!rank || !world)
      throw UserError(std::string(rank ? launcher.rank : launcher.world) + " is set, " +
                      (rank ? launcher.world : launcher.rank) + " is not: " + launcher.name +
                      " sets both");
    where.launcher = launcher.name;
    where.world = number(launcher.world, 1, 4096);
    where.rank = number(launcher.rank, 0, where.world - 1);
    // Not said: all ranks are on one machine.
    where.local_rank = std::getenv(launcher.local_rank) == nullptr
                           ? where.rank
                           : number(launcher.local_rank, 0, where.world - 1);
    break;
  }
  if (const char* address = std::getenv("MASTER_ADDR")) where.address = address;
  if (std::getenv("MASTER_PORT") != nullptr)
    where.port = static_cast<std::uint16_t>(number("MASTER_PORT", 1, 65535));
  // torch.distributed.rendezvous's variables (v2.11): torchrun's agent keeps the store itself.
  if (const char* serves = std::getenv("TORCHELASTIC_USE_AGENT_STORE"))
    where.launcher_serves_store = std::string(serves) == "True";
  if (const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT")) where.attempt = attempt;
  if (where.launcher == "srun" && where.world > 1 && std::getenv("MASTER_ADDR") == nullptr)
    throw UserError("srun does not say where ranks meet: set MASTER_ADDR to the first node's name");
  return where;
}

}  // namespace ac_advisor::trainer
