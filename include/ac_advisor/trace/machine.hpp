#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/trace/injection.hpp"

/// What a machine can measure, and what is missing.
namespace ac_advisor::trace {

struct Gpu {
  std::string name;
  std::int64_t memory_bytes = 0;
};

struct CuptiLibrary {
  std::string path;
  std::int64_t version = 0;  ///< CUPTI_API_VERSION; 0: it does not load
  std::string error;
  bool counts = false;       ///< has the range profiler of CUDA 13
  std::string nvperf_error;  ///< of libnvperf_host.so beside it; empty: it loads
};

/// Facts, as they were found; what could not be found out is empty.
struct Machine {
  std::string kernel_module;                ///< version of nvidia.ko; empty: not loaded
  std::vector<std::string> device_files;    ///< /dev/nvidia0, …
  std::optional<std::int64_t> driver_cuda;  ///< CUDA version of libcuda, 13000 for 13.0
  std::string libcuda_error;
  bool nvml = false;
  std::string nvml_error;
  std::vector<Gpu> gpus;
  std::optional<bool> counters_for_admin_only;  ///< the driver's RmProfilingAdminOnly
  bool admin = false;                           ///< CAP_SYS_ADMIN
  bool container = false;
  bool wsl = false;
  std::map<std::string, std::string> environment;  ///< variables that matter, where set
  Injection injection;
  std::vector<CuptiLibrary> cupti;
};

/// What the files of the driver and the kernel tell, without a library being loaded. `root` stands
/// for "/".
[[nodiscard]] Machine look_at_files(const std::string& root = "");

/// Looks at files, environment and NVIDIA's libraries, which it loads; starts nothing on a device.
[[nodiscard]] Machine look_at_machine();

struct Check {
  enum class State : std::uint8_t { fine, limited, missing };
  std::string name;
  State state = State::missing;
  std::string found;
  std::string way_out;  ///< what would mend it; empty where nothing need be
};

/// The names of the checks that only bandwidths depend on.
inline constexpr const char* counters_check = "hardware counters";
inline constexpr const char* counters_library_check = "counters' library";

struct Ability {
  std::string what;
  bool can = false;
  std::string why;  ///< where it cannot
};

struct Examination {
  std::vector<Check> checks;
  std::vector<Ability> abilities;
};

/// What the facts mean. A machine without a GPU is no fault: it says what works there.
[[nodiscard]] Examination examine(const Machine& machine);

}  // namespace ac_advisor::trace
