// `ac-advisor measure` as its user meets it: another process, ranks that die, Ctrl-C, too little
// memory, going on where it stopped.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ac_advisor/profile/profile.hpp"
#include "test_paths.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;
  std::string out;
};

Ran shell(const std::string& command) {
  std::FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  Ran ran;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    ran.out.append(buffer, n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

std::string measure(const std::string& options) {
  return std::string(test::program) +
         " measure tiny-llama --batch 2 --seq 32 --param-dtype fp32 --compute-dtype fp32 "
         "--reduce-dtype fp32 " +
         options;
}

std::string measure_on_gpu() {
  return fmt::format("{} measure tiny-llama --batch 2 --seq 32 --gpu h200 --steps 1",
                     test::program);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("ac-measure-test-{}", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::vector<double> losses_of(const std::string& json) {
  return profile::from_json(json, "measure").numerics->losses;
}

}  // namespace

TEST_CASE("measure prints predicted beside measured, and its JSON is a measured profile") {
  const Ran table = shell(measure("--ac full --world 2 --shard fsdp2"));
  CHECK(table.code == 0);
  CHECK(contains(table.out, "the measured peak is the predicted one, to the byte"));
  CHECK(contains(table.out, "agrees"));
  CHECK(contains(table.out, "recompute"));
  const Ran json = shell(measure("--format json 2>/dev/null"));
  const profile::Profile p = profile::from_json(json.out, "measure");
  CHECK(p.source == "measured");
  CHECK(p.numerics->parity == "bit-identical");
  CHECK(p.absent.contains("memory.peak_reserved_bytes"));
  const auto root = nlohmann::json::parse(json.out);
  CHECK(root["memory"]["peak_reserved_bytes"].is_null());
  CHECK(root["predicted"]["memory"]["peak_allocated_bytes"] == p.memory.peak_allocated);
  std::int64_t sum = 0;
  for (std::int64_t bytes : p.memory.at_peak) sum += bytes;
  CHECK(sum == p.memory.peak_allocated);
}

TEST_CASE("ranks as processes over Gloo take the steps of ranks as threads") {
  const std::string options = "--shard fsdp2 --ac full --loss lc-ce --format json ";
  const Ran threads = shell(measure(options + "--world 2 2>/dev/null"));
  const Folder folder;
  const std::string errors = (folder.path / "errors").string();
  const Ran processes = shell(measure(options + "--procs 2 2>" + errors));
  const std::string said = shell("cat " + errors).out;
  CAPTURE(said);
  REQUIRE(processes.code == 0);
  const std::vector<double> a = losses_of(threads.out), b = losses_of(processes.out);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-6));
}

TEST_CASE("stages and parts of layers as processes over Gloo have the bytes and bits of threads") {
  // Interleaved: a message may be received after what its sender frees next.
  const std::string options =
      "--tp 2 --pp 2 --pp-schedule interleaved:2 --shard fsdp2 --grad-accum 4 --format json ";
  const Ran threads = shell(measure(options + "--world 8 2>/dev/null")),
            processes = shell(measure(options + "--procs 8 2>/dev/null"));
  REQUIRE(threads.code == 0);
  REQUIRE(processes.code == 0);
  const auto a = profile::from_json(threads.out, "threads"),
             b = profile::from_json(processes.out, "processes");
  CHECK(a.numerics->gradient_digest == b.numerics->gradient_digest);
  CHECK(b.numerics->parity_error < 1e-6);
  REQUIRE(b.memory.ranks.size() == 2);
  const auto planned = nlohmann::json::parse(processes.out)["predicted"]["memory"]["ranks"];
  for (std::size_t stage = 0; stage < 2; ++stage) {
    CHECK(b.memory.ranks[stage].count == 4);
    CHECK_FALSE(b.memory.ranks[stage].peak_reserved);  // a CPU's allocator reserves nothing
    CHECK(b.memory.ranks[stage].peak_allocated == a.memory.ranks[stage].peak_allocated);
    CHECK(b.memory.ranks[stage].peak_allocated == planned[stage]["peak_allocated_bytes"]);
  }
}

TEST_CASE("ranks that a launcher starts meet by its variables") {
  const int port = 20000 + getpid() % 20000;
  const std::string one = measure("--shard ddp --format json");
  const Ran ran =
      shell(fmt::format("export MASTER_ADDR=127.0.0.1 MASTER_PORT={} WORLD_SIZE=2; "
                        "RANK=1 {} >/dev/null 2>&1 & RANK=0 {} 2>/dev/null",
                        port, one, one));
  REQUIRE(ran.code == 0);
  CHECK(profile::from_json(ran.out, "measure").config.layout.world == 2);
  CHECK(contains(shell("RANK=0 " + one + " --world 2").out, "WORLD_SIZE is not"));
  CHECK(contains(shell("RANK=2 WORLD_SIZE=2 " + one).out, "RANK=2: must be a whole number from 0"));
}

TEST_CASE("bad input to measure ends with 2 and says what would be right") {
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {"--dropout 0.1", "use --attn eager"},
           {"--data /no/such/file", "cannot be read"},
           {"--weights /no/such.safetensors", "cannot be read"},
           {"--resume", "--resume needs --checkpoint"},
           {"--seq 1", "no next token"},
           {"--procs 2 --world 2 --shard ddp", "one of them"},
           {"--collectives carrier-pigeon", "carrier-pigeon"},
           {"--collectives nccl --world 2 --shard ddp", "ac-trainer-cuda has"},
           {"--seq 100000", "shorter than one sequence"}}) {
    const Ran ran = shell(measure(options));
    CAPTURE(options);
    CHECK(ran.code == 2);
    CHECK(contains(ran.out, words));
  }
}

TEST_CASE("one emulated rank of eight is measured, and its losses are left out with a reason") {
  const Ran ran =
      shell(measure("--world 8 --shard fsdp2 --collectives emulate --format json 2>/dev/null"));
  REQUIRE(ran.code == 0);
  const profile::Profile p = profile::from_json(ran.out, "measure");
  CHECK_FALSE(p.numerics.has_value());
  CHECK(contains(p.absent.at("numerics"), "no peers"));
  const auto root = nlohmann::json::parse(ran.out);
  CHECK(root["predicted"]["memory"]["peak_allocated_bytes"] == p.memory.peak_allocated);
}

TEST_CASE("a training that diverges is measured, and its losses are no numbers") {
  const Ran ran = shell(measure("--steps 6 --lr 1000 --no-parity --format json 2>/dev/null"));
  REQUIRE(ran.code == 0);
  const profile::Profile p = profile::from_json(ran.out, "measure");
  CHECK(std::isfinite(p.numerics->losses.front()));
  CHECK(p.numerics->losses.size() == 6);
  CHECK(p.memory.peak_allocated > 0);
}

TEST_CASE("without a trainer measure ends with 3 and says where it is looked for") {
  const Ran ran = shell("AC_TRAINER=/no/such/trainer " + measure(""));
  CHECK(ran.code == 3);
  CHECK(contains(ran.out, "/no/such/trainer is not there"));
}

TEST_CASE("measure for a GPU without a GPU ends with 3 and says what is missing") {
  const Ran ran = shell("unset AC_TRAINER; CUDA_VISIBLE_DEVICES= " + measure_on_gpu());
  CAPTURE(ran.out);
  CHECK(ran.code == 3);
  if (test::trainer_cuda.empty()) {
    CHECK(contains(ran.out, "ac-trainer-cuda is not there"));
  } else {
    CHECK(contains(ran.out, "no CUDA device"));
    CHECK(contains(ran.out, "ac-advisor doctor"));
  }
  const Ran not_built = shell("AC_TRAINER=/no/such/ac-trainer-cuda " + measure_on_gpu());
  CHECK(not_built.code == 3);
  CHECK(contains(not_built.out, "/no/such/ac-trainer-cuda is not there"));
  CHECK(contains(not_built.out, "built where LibTorch and a CUDA 13 toolkit are found"));
}

TEST_CASE("the trainer of CPUs refuses a GPU's run and names the trainer that takes it") {
  const Ran ran = shell("CUDA_VISIBLE_DEVICES= AC_TRAINER=" + std::string(test::trainer) + " " +
                        measure_on_gpu());
  CAPTURE(ran.out);
  CHECK(ran.code == 2);
  CHECK(contains(ran.out, "GPUs are for ac-trainer-cuda"));
}

TEST_CASE("out of memory names what was live and what would fit") {
  const Ran ran = shell(measure("--memory-limit 3000000"));
  CHECK(ran.code == 3);
  CHECK(contains(ran.out, "out of memory: rank 0, step 1"));
  CHECK(contains(ran.out, "live by category:"));
  CHECK(contains(ran.out, "optimizer_states"));
  CHECK(contains(ran.out, "would fit, by prediction:"));
}

TEST_CASE("a rank that dies ends the run in seconds, by its name and step") {
  const auto start = std::chrono::steady_clock::now();
  // The second child of the trainer is rank 1.
  const Ran ran = shell(measure("--procs 2 --shard fsdp2 --steps 100000 --no-parity") +
                        " & p=$!; for i in $(seq 100); do t=$(pgrep -P $p ac-trainer); "
                        "[ -n \"$t\" ] && k=$(pgrep -P $t | sed -n 2p) && [ -n \"$k\" ] && break; "
                        "sleep 0.1; done; sleep 2; kill -9 $k; wait $p; echo code $?");
  const auto seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CAPTURE(ran.out);
  CHECK(contains(ran.out, "rank 1 was killed by signal 9"));
  CHECK(contains(ran.out, "in step"));
  CHECK(contains(ran.out, "code 3"));
  CHECK(seconds < 40);
}

TEST_CASE("a rank that stops answering ends the run in seconds, by its name") {
  for (const int rank : {0, 1}) {  // rank 0 holds the store, too
    const auto start = std::chrono::steady_clock::now();
    const Ran ran =
        shell(measure("--procs 2 --shard fsdp2 --steps 100000 --no-parity --timeout 3") +
              " & p=$!; for i in $(seq 100); do t=$(pgrep -P $p ac-trainer); [ -n \"$t\" ] && "
              "k=$(pgrep -P $t | sed -n " +
              std::to_string(rank + 1) +
              "p) && [ -n \"$k\" ] && break; "
              "sleep 0.1; done; sleep 2; kill -STOP $k; wait $p; echo code $?");
    const auto seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CAPTURE(ran.out);
    CHECK(contains(ran.out, fmt::format("rank {} stopped in step", 1 - rank)));
    CHECK(contains(ran.out, fmt::format("rank {} failed: ", rank)));
    CHECK(contains(ran.out, rank == 0 ? "nor does the store" : "has been silent"));
    CHECK(contains(ran.out, "code 3"));
    CHECK(seconds < 40);
  }
}

TEST_CASE("going on from a checkpoint is bit for bit the run that was not interrupted") {
  const Folder folder;
  const std::string where = folder.path.string();
  for (const char* options : {"--ac full", "--world 2 --shard fsdp2 --grad-accum 2",
                              "--world 2 --shard zero2", "--attn eager --dropout 0.1"}) {
    fs::remove_all(folder.path / "c");
    const std::string base =
        std::string(options) + " --no-parity --format json --checkpoint " + where + "/c --seed 5 ";
    const std::vector<double> whole =
        losses_of(shell(measure(std::string(options) + " --no-parity --format json --seed 5 "
                                                       "--steps 6 2>/dev/null"))
                      .out);
    static_cast<void>(shell(measure(base + "--steps 4 2>/dev/null")));
    const std::vector<double> rest =
        losses_of(shell(measure(base + "--steps 2 --resume 2>/dev/null")).out);
    CAPTURE(std::string(options));
    REQUIRE(whole.size() == 6);
    REQUIRE(rest.size() == 2);
    CHECK(rest[0] == whole[4]);
    CHECK(rest[1] == whole[5]);
  }
  const Ran other = shell(measure("--resume --batch 4 --checkpoint " + where + "/c"));
  CHECK(other.code == 2);
  CHECK(contains(other.out, "was made with"));
}

TEST_CASE("Ctrl-C leaves a checkpoint that goes on, and no other file") {
  const Folder folder;
  const std::string where = folder.path.string();
  const Ran ran = shell(measure("--steps 1000000 --no-parity --log-steps --output " + where +
                                "/out.json --format json --checkpoint " + where + "/c") +
                        " & p=$!; for i in $(seq 100); do t=$(pgrep -P $p ac-trainer); "
                        "[ -n \"$t\" ] && break; sleep 0.1; done; sleep 2; kill -INT $t; wait $p; "
                        "echo code $?");
  CHECK(contains(ran.out, "code 130"));
  CHECK(contains(ran.out, "stopped after step"));
  CHECK(contains(ran.out, "loss"));
  CHECK(fs::exists(folder.path / "c" / "rank0.safetensors"));
  CHECK_FALSE(fs::exists(folder.path / "out.json"));
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path))
    files += entry.is_regular_file() ? 1 : 0;
  CHECK(files == 1);
  CHECK(shell(measure("--steps 1 --resume --no-parity --checkpoint " + where + "/c")).code == 0);
}

TEST_CASE("the loss falls on the sample text") {
  const Ran ran =
      shell(measure("--steps 40 --lr 0.003 --warmup 4 --no-parity --format json "
                    "2>/dev/null"));
  const std::vector<double> losses = losses_of(ran.out);
  REQUIRE(losses.size() == 40);
  CHECK(losses.front() > 6.0);  // ln 512 = 6.24: nothing is known
  CHECK(losses.back() < 3.6);
}

TEST_CASE("advise --measure runs every configuration of its sweep") {
  const Ran ran = shell(std::string(test::program) +
                        " advise tiny-llama --measure --world 2 --shard fsdp2 --batch 1 --seq 32 "
                        "--param-dtype fp32 --compute-dtype fp32 --reduce-dtype fp32 --no-parity");
  CHECK(ran.code == 0);
  CHECK(contains(ran.out, "30 of 30 predicted peaks are the measured ones to the byte"));
  CHECK(contains(ran.out, "+ LC-CE"));
}

}  // namespace ac_advisor
