// Who a launcher's variables say that this process is.
#include <cstdlib>
#include <string>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "trainer/collectives/collectives.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor {
namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

/// The environment has these, and none other of a launcher's.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_PROCID",
                             "SLURM_NTASKS", "SLURM_LOCALID", "MASTER_ADDR", "MASTER_PORT",
                             "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"})
      unsetenv(name);
  }
};

trainer::Rendezvous with(const Variables& variables) {
  const Environment environment(variables);
  return trainer::rendezvous_from_environment();
}

}  // namespace

TEST_CASE("torchrun, mpirun and srun each say which device of its machine a rank has") {
  const auto torchrun = with({{"RANK", "9"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}});
  CHECK(torchrun.launcher == "torchrun");
  CHECK(torchrun.rank == 9);
  CHECK(torchrun.world == 16);
  CHECK(torchrun.local_rank == 1);
  const auto mpirun = with({{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  CHECK(mpirun.launcher == "mpirun");
  CHECK(mpirun.local_rank == 1);
  const auto srun = with({{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "2"},
                          {"MASTER_ADDR", "node0"}});
  CHECK(srun.launcher == "srun");
  CHECK(srun.local_rank == 2);
  CHECK(srun.address == "node0");
}

TEST_CASE("where a launcher says no local rank, all ranks are on one machine") {
  CHECK(with({{"RANK", "3"}, {"WORLD_SIZE", "4"}}).local_rank == 3);
  CHECK(with({}).local_rank == 0);
}

TEST_CASE("a local rank that is no number, or beyond the world, is refused by its name") {
  for (const char* bad : {"-1", "4", "one", "1x", ""})
    CHECK_THROWS_WITH_AS(
        static_cast<void>(with({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", bad}})),
        (std::string("LOCAL_RANK=") + bad + ": must be a whole number from 0 to 3").c_str(),
        UserError);
}

TEST_CASE("torchrun's agent keeps the store, and each attempt has keys of its own") {
  const auto own = with({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  CHECK_FALSE(own.launcher_serves_store);
  const auto agents = with({{"RANK", "0"},
                            {"WORLD_SIZE", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"}});
  CHECK(agents.launcher_serves_store);
  CHECK(agents.attempt == "2");
}

}  // namespace ac_advisor
