#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/trace/machine.hpp"

namespace ac_advisor::trace {
namespace {

using State = Check::State;

// CUPTI's version of CUDA 13.0 and later is major * 10000 + …; before, a small number.
constexpr std::int64_t cupti_of_13 = 130000;
constexpr std::int64_t oldest_cupti = 18;  // CUDA 12.0

std::string cuda_version(std::int64_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string variable(const Machine& m, const char* name) {
  const auto found = m.environment.find(name);
  return found == m.environment.end() ? "" : found->second;
}

Check driver(const Machine& m) {
  if (m.driver_cuda)
    return {"driver", State::fine,
            fmt::format("{}libcuda for CUDA {}",
                        m.kernel_module.empty() ? "" : "version " + m.kernel_module + ", ",
                        cuda_version(*m.driver_cuda)),
            ""};
  if (!m.kernel_module.empty() || !m.device_files.empty())
    return {
        "driver", State::missing,
        fmt::format("kernel module {}, but no libcuda.so.1 ({})", m.kernel_module, m.libcuda_error),
        m.container ? "run the container with the NVIDIA Container Toolkit (docker run --gpus "
                      "all), NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                    : "install the driver's CUDA library (Debian: libcuda1)"};
  return {"driver", State::missing, "no NVIDIA driver (no libcuda.so.1, no kernel module)",
          m.container
              ? "if the host has a GPU: run the container with the NVIDIA Container Toolkit "
                "(docker run --gpus all)"
              : "if the machine has an NVIDIA GPU: install the driver (Debian: "
                "nvidia-driver)"};
}

Check device(const Machine& m) {
  if (!m.gpus.empty()) {
    std::string names;
    for (const Gpu& gpu : m.gpus)
      names += fmt::format("{}{} ({:.0f} GiB)", names.empty() ? "" : ", ", gpu.name,
                           static_cast<double>(gpu.memory_bytes) / (1 << 30));
    if (variable(m, "CUDA_VISIBLE_DEVICES") == "" && m.environment.contains("CUDA_VISIBLE_DEVICES"))
      return {"device", State::limited, names + ", hidden by an empty CUDA_VISIBLE_DEVICES",
              "unset CUDA_VISIBLE_DEVICES"};
    return {"device", State::fine, names, ""};
  }
  if (m.wsl)
    return {"device", State::limited, "WSL: devices are the Windows host's, not listed here", ""};
  if (!m.driver_cuda) return {"device", State::missing, "no device: there is no driver", ""};
  if (!m.device_files.empty())
    return {"device", State::limited,
            fmt::format("{} device files, but NVML lists none ({})", m.device_files.size(),
                        m.nvml_error),
            "install the driver's management library (Debian: libnvidia-ml1), or give the "
            "container the capability utility"};
  return {
      "device", State::missing, "the driver is there, a device is not (no /dev/nvidia0)",
      m.container ? "run the container with --gpus all" : "see lspci, and dmesg for the driver"};
}

Check support(const Machine& m) {
  if (m.injection.built_with.empty())
    return {"tracing library", State::missing, "not in this build", m.injection.reason};
  if (m.injection.library.empty())
    return {"tracing library", State::missing, "built with " + m.injection.built_with,
            m.injection.reason};
  return {"tracing library", State::fine,
          m.injection.library + ", built with " + m.injection.built_with, ""};
}

Check cupti(const Machine& m) {
  if (m.injection.built_with.empty())
    return {"CUPTI", State::missing, "not looked for: this build cannot use it", ""};
  const bool old_driver = m.driver_cuda && *m.driver_cuda < 13000;
  std::string too_new;
  for (const CuptiLibrary& library : m.cupti) {
    if (library.version < oldest_cupti) continue;
    if (old_driver && library.version >= cupti_of_13) {
      too_new = library.path;
      continue;
    }
    return {"CUPTI", State::fine, fmt::format("{}, version {}", library.path, library.version), ""};
  }
  if (!too_new.empty())
    return {"CUPTI", State::limited,
            fmt::format("{} is of CUDA 13, the driver of CUDA {}", too_new,
                        cuda_version(*m.driver_cuda)),
            fmt::format("a program that brings its own CUPTI of CUDA 12 (PyTorch for CUDA 12 does) "
                        "is traced with that one; for others install the driver 580 or later, or "
                        "set {} to a libcupti.so.12",
                        cupti_variable)};
  return {"CUPTI", State::missing, "no libcupti.so.13 or libcupti.so.12 that loads",
          fmt::format("install NVIDIA's package cuda-cupti-13-0, or pip install "
                      "nvidia-cuda-cupti, or set {} to its path",
                      cupti_variable)};
}

Check other_tools(const Machine& m) {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"})
    if (const std::string value = variable(m, name); !value.empty())
      return {"other tools", State::limited, fmt::format("{} is set to {}", name, value),
              fmt::format("CUPTI serves one tool at a time: unset {}", name)};
  if (const std::string preload = variable(m, "LD_PRELOAD");
      preload.find("nsys") != std::string::npos ||
      preload.find("ToolsInjection") != std::string::npos)
    return {"other tools", State::limited, "Nsight Systems is preloaded (LD_PRELOAD)",
            "CUPTI serves one tool at a time: run outside nsys"};
  return {"other tools", State::fine,
          "none that is set up here (a program that runs torch.profiler itself cannot be traced at "
          "the same time)",
          ""};
}

Check counters_library(const Machine& m) {
  const char* const name = counters_library_check;
  const std::string install =
      "install NVIDIA's package cuda-cupti-13-0, or pip install nvidia-cuda-cupti, or set " +
      std::string(cupti_variable) + " to its libcupti.so.13";
  if (m.injection.built_with.empty())
    return {name, State::missing, "not looked for: this build cannot use it", ""};
  if (m.driver_cuda && *m.driver_cuda < 13000)
    return {name, State::missing,
            fmt::format("CUPTI of CUDA 13 is needed, the driver is of CUDA {}",
                        cuda_version(*m.driver_cuda)),
            "install the driver 580 or later"};
  std::string lacks;
  for (const CuptiLibrary& library : m.cupti) {
    const bool counts = library.version >= cupti_of_13 && library.counts;
    if (counts && library.nvperf_error.empty())
      return {name, State::fine, library.path + " and libnvperf_host.so beside it", ""};
    if (counts)
      lacks = library.path + ", but libnvperf_host.so beside it does not load (" +
              library.nvperf_error + ")";
  }
  if (!lacks.empty()) return {name, State::missing, lacks, install};
  return {name, State::missing, "no libcupti.so.13 that loads", install};
}

Check counters(const Machine& m) {
  const char* const name = counters_check;
  if (!m.driver_cuda) return {name, State::missing, "no driver", ""};
  if (m.wsl)
    return {name, State::limited, "WSL: the Windows driver decides",
            "NVIDIA Control Panel, Developer, Manage GPU Performance Counters: allow all users"};
  if (!m.counters_for_admin_only)
    return {name, State::limited,
            "the driver does not tell (/proc/driver/nvidia/params has no RmProfilingAdminOnly)",
            "needed only for DRAM bandwidth; try nsys profile --gpu-metrics-devices=all"};
  if (!*m.counters_for_admin_only) return {name, State::fine, "permitted to every user", ""};
  if (m.admin) return {name, State::fine, "permitted: this process has CAP_SYS_ADMIN", ""};
  return {name, State::limited,
          "not permitted: RmProfilingAdminOnly is 1 and this process lacks CAP_SYS_ADMIN",
          m.container
              ? "start the container with --cap-add SYS_ADMIN, or load the host's module with "
                "NVreg_RestrictProfilingToAdminUsers=0"
              : "as root: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in "
                "/etc/modprobe.d/nvidia.conf, update-initramfs -u and reboot; or run with "
                "CAP_SYS_ADMIN (sudo)"};
}

}  // namespace

Examination examine(const Machine& m) {
  Examination e;
  e.checks = {driver(m),      device(m),   support(m),         cupti(m),
              other_tools(m), counters(m), counters_library(m)};
  const auto check = [&](std::size_t i) { return e.checks[i]; };
  std::string lacks;
  for (const std::size_t i : {0U, 1U, 2U, 3U, 4U})
    if (check(i).state == State::missing || (i == 4 && check(i).state != State::fine))
      lacks += (lacks.empty() ? "" : ", ") + check(i).name;
  std::string uncounted;
  for (const std::size_t i : {0U, 1U, 5U, 6U})
    if (i == 1 ? check(i).state == State::missing : check(i).state != State::fine)
      uncounted += (uncounted.empty() ? "" : ", ") + check(i).name;
  const bool device_there = check(0).state == State::fine && check(1).state != State::missing;
  e.abilities = {
      {"plan, advise, compare, explain, export: predictions", true, ""},
      {"diagnose: traces of torch.profiler, exports of Nsight Systems", true, ""},
      {"trace: launches, kernels, copies, gaps and ranges of a program", lacks.empty(),
       "see " + lacks},
      {"trace: memory that a program allocates on the device", lacks.empty(), "see " + lacks},
      {"trace: memory in use on the whole device, sampled", device_there && m.nvml,
       m.nvml ? "see driver, device" : "no NVML (" + m.nvml_error + ")"},
      {"bandwidth of recomputation, by Nsight Systems' GPU metrics",
       device_there && check(5).state == State::fine, "see hardware counters"},
      {"measure: DRAM traffic of each phase of the trainer's step, by hardware counters",
       device_there && check(5).state == State::fine && check(6).state == State::fine,
       "see " + uncounted},
  };
  return e;
}

}  // namespace ac_advisor::trace
