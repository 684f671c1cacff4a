// CUPTI's range profiler (CUDA 13): ranges of the user's, one pass, so that nothing is replayed.
// The order of calls is that of CUPTI's documentation, "CUPTI Range Profiling API", usage.
#include "trainer/counters/counters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "trainer/counters/cupti/api.hpp"
#include "trainer/counters/cupti/metrics.hpp"

namespace ac_advisor::trainer {
namespace {

using namespace counters;

std::string why_unsupported(const Api& api, CUdevice device) {
  auto p = params<CUpti_Profiler_DeviceSupported_Params>(
      CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE);
  p.cuDevice = device;
  p.api = CUPTI_PROFILER_RANGE_PROFILING;
  if (const CUptiResult r = api.device_supported(&p); r != CUPTI_SUCCESS)
    return reason(api, "cuptiProfilerDeviceSupported", r);
  if (p.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return "";
  const struct {
    CUpti_Profiler_Support_Level level;
    const char* text;
  } flags[] = {
      {p.architecture, "the device is older than Turing"},
      {p.sli, "SLI is on: turn it off"},
      {p.vGpu, "the GPU is virtualised: its host must enable profiling, or pass the GPU through"},
      {p.confidentialCompute, "confidential computing hides counters: run with it off"},
      {p.cmp, "a mining processor has no counters"},
      {p.wsl, "WSL: allow counters to all users in the NVIDIA Control Panel of Windows"},
  };
  for (const auto& flag : flags)
    if (flag.level == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED ||
        flag.level == CUPTI_PROFILER_CONFIGURATION_DISABLED)
      return std::string("the device cannot be profiled: ") + flag.text;
  return "the device cannot be profiled, and CUPTI does not say why";
}

/// Also the first call that permission is asked for.
std::string get_availability(const Api& api, CUcontext context, std::vector<std::uint8_t>& image) {
  auto p = params<CUpti_Profiler_GetCounterAvailability_Params>(
      CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
  p.ctx = context;
  CUptiResult r = api.get_availability(&p);
  if (r == CUPTI_SUCCESS) {
    image.resize(p.counterAvailabilityImageSize);
    p.pCounterAvailabilityImage = image.data();
    r = api.get_availability(&p);
  }
  return r == CUPTI_SUCCESS ? "" : reason(api, "cuptiProfilerGetCounterAvailability", r);
}

}  // namespace

struct Counters::Session {
  Api api;
  CUcontext context = nullptr;
  std::unique_ptr<Metrics> metrics;

  // From begin to end.
  CUpti_RangeProfiler_Object* profiler = nullptr;
  std::vector<std::uint8_t> data;
  std::vector<std::string> names;  ///< of the ranges, in the order of their pushes
  std::size_t most = 0;
  bool started = false, open = false;
  std::string why_not;

  ~Session() { disable(); }

  bool ok(const char* function, CUptiResult result) {
    if (result != CUPTI_SUCCESS && why_not.empty()) why_not = reason(api, function, result);
    return result == CUPTI_SUCCESS;
  }

  bool make_data() {
    auto size = params<CUpti_RangeProfiler_GetCounterDataSize_Params>(
        CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
    size.pRangeProfilerObject = profiler;
    size.pMetricNames = metrics->names().data();
    size.numMetrics = metrics->names().size();
    size.maxNumOfRanges = most;
    size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(most);
    if (!ok("cuptiRangeProfilerGetCounterDataSize", api.get_data_size(&size))) return false;
    data.assign(size.counterDataSize, 0);
    auto initial = params<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>(
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    initial.pRangeProfilerObject = profiler;
    initial.counterDataSize = data.size();
    initial.pCounterData = data.data();
    return ok("cuptiRangeProfilerCounterDataImageInitialize", api.initialize_data(&initial));
  }

  bool configure() {
    auto p = params<CUpti_RangeProfiler_SetConfig_Params>(
        CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler;
    p.configSize = metrics->config().size();
    p.pConfig = metrics->config().data();
    p.counterDataImageSize = data.size();
    p.pCounterDataImage = data.data();
    p.range = CUPTI_UserRange;
    p.replayMode = CUPTI_UserReplay;
    p.maxRangesPerPass = most;
    p.numNestingLevels = 1;
    p.minNestingLevel = 1;
    p.passIndex = 0;
    p.targetNestingLevel = 1;
    return ok("cuptiRangeProfilerSetConfig", api.set_config(&p));
  }

  void begin() {
    auto enable =
        params<CUpti_RangeProfiler_Enable_Params>(CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
    enable.ctx = context;
    if (!ok("cuptiRangeProfilerEnable", api.enable(&enable))) return;
    profiler = enable.pRangeProfilerObject;
    if (!make_data() || !configure()) return;
    auto start =
        params<CUpti_RangeProfiler_Start_Params>(CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
    start.pRangeProfilerObject = profiler;
    started = ok("cuptiRangeProfilerStart", api.start(&start));
  }

  void push(const std::string& range) {
    // A name of its own each time: CUPTI counts by the range's name.
    const std::string name = range + "#" + std::to_string(names.size());
    auto p = params<CUpti_RangeProfiler_PushRange_Params>(
        CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler;
    p.pRangeName = name.c_str();
    open = ok("cuptiRangeProfilerPushRange", api.push(&p));
    if (open) names.push_back(range);
  }

  void pop() {
    auto p = params<CUpti_RangeProfiler_PopRange_Params>(
        CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler;
    open = false;
    ok("cuptiRangeProfilerPopRange", api.pop(&p));
  }

  void stop() {
    if (open) pop();
    auto p = params<CUpti_RangeProfiler_Stop_Params>(CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler;
    started = false;
    if (ok("cuptiRangeProfilerStop", api.stop(&p)) && p.isAllPassSubmitted == 0 && why_not.empty())
      why_not = "cuptiRangeProfilerStop: another pass is needed; a training step is run once";
  }

  void decode() {
    auto p = params<CUpti_RangeProfiler_DecodeData_Params>(
        CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler;
    if (ok("cuptiRangeProfilerDecodeData", api.decode(&p)) && p.numOfRangeDropped > 0)
      why_not = "cuptiRangeProfilerDecodeData: " + std::to_string(p.numOfRangeDropped) +
                " ranges were dropped";
  }

  /// The number that push gave the range; more than there are names: none of this class's.
  std::size_t number_of(std::size_t index) {
    auto p = params<CUpti_RangeProfiler_CounterData_GetRangeInfo_Params>(
        CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE);
    p.pCounterDataImage = data.data();
    p.counterDataImageSize = data.size();
    p.rangeIndex = index;
    p.rangeDelimiter = "/";
    if (!ok("cuptiRangeProfilerCounterDataGetRangeInfo", api.get_range_info(&p)) ||
        p.rangeName == nullptr)
      return names.size();
    const std::string name = p.rangeName;
    const auto at = name.rfind('#');
    return at == std::string::npos ? names.size() : std::strtoull(&name[at + 1], nullptr, 10);
  }

  std::vector<RangeTraffic> collect() {
    auto info = params<CUpti_RangeProfiler_GetCounterDataInfo_Params>(
        CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
    info.pCounterDataImage = data.data();
    info.counterDataImageSize = data.size();
    if (!ok("cuptiRangeProfilerGetCounterDataInfo", api.get_data_info(&info))) return {};
    if (info.numTotalRanges != names.size())
      why_not = std::to_string(names.size()) + " ranges were pushed, CUPTI counted " +
                std::to_string(info.numTotalRanges);
    std::vector<RangeTraffic> all;
    for (const std::string& name : names)  // in this order, whatever the image's is
      if (std::none_of(all.begin(), all.end(), [&](const auto& r) { return r.name == name; }))
        all.push_back({.name = name});
    std::vector<double> values;
    for (std::size_t i = 0; i < info.numTotalRanges && why_not.empty(); ++i) {
      const std::size_t number = number_of(i);
      if (number >= names.size() && why_not.empty())
        why_not = "CUPTI counted a range that was not pushed";
      if (why_not.empty()) why_not = metrics->evaluate(data, i, values);
      if (!why_not.empty()) break;
      if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) {
        why_not = "CUPTI's value for a range of " + names[number] + " is not a number";
        break;
      }
      add(*std::find_if(all.begin(), all.end(),
                        [&](const auto& r) { return r.name == names[number]; }),
          values);
    }
    const bool any = std::any_of(all.begin(), all.end(), [](const auto& r) {
      return r.dram_read_bytes + r.dram_write_bytes > 0;
    });
    if (!any && why_not.empty())
      why_not = "CUPTI counted no DRAM traffic at all: the device does not let it be counted";
    // Until now percent times seconds: the mean over the time of all ranges.
    for (RangeTraffic& r : all)
      if (r.seconds && *r.seconds > 0)
        r.dram_percent_of_peak = *r.dram_percent_of_peak / *r.seconds;
      else
        r.dram_percent_of_peak.reset();
    return why_not.empty() ? all : std::vector<RangeTraffic>{};
  }

  static void add(RangeTraffic& r, const std::vector<double>& values) {
    ++r.ranges;
    r.dram_read_bytes += values[0];
    r.dram_write_bytes += values[1];
    if (values.size() <= duration_index) return;
    const double seconds = 1e-9 * values[duration_index];
    r.seconds = r.seconds.value_or(0) + seconds;
    r.dram_percent_of_peak = r.dram_percent_of_peak.value_or(0) + values[percent_index] * seconds;
  }

  void disable() {
    if (profiler == nullptr) return;
    if (started) stop();
    auto p =
        params<CUpti_RangeProfiler_Disable_Params>(CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler;
    profiler = nullptr;
    ok("cuptiRangeProfilerDisable", api.disable(&p));
  }
};

std::unique_ptr<Counters> Counters::open(std::string& why_not) {
  auto session = std::make_unique<Session>();
  const Api& api = session->api;
  why_not = load(session->api);
  if (!why_not.empty()) return nullptr;
  const Current current = current_context();
  why_not = current.why_not;
  if (!why_not.empty()) return nullptr;
  session->context = current.context;
  auto p = params<CUpti_Profiler_Initialize_Params>(CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  if (const CUptiResult r = api.initialize(&p); r != CUPTI_SUCCESS) {
    why_not = reason(api, "cuptiProfilerInitialize", r);
    return nullptr;
  }
  why_not = why_unsupported(api, current.device);
  std::vector<std::uint8_t> availability;
  if (why_not.empty()) why_not = get_availability(api, current.context, availability);
  if (!why_not.empty()) return nullptr;
  auto chip = params<CUpti_Device_GetChipName_Params>(CUpti_Device_GetChipName_Params_STRUCT_SIZE);
  chip.deviceIndex = static_cast<std::size_t>(current.device);
  if (const CUptiResult r = api.get_chip_name(&chip);
      r != CUPTI_SUCCESS || chip.pChipName == nullptr) {
    why_not = reason(api, "cuptiDeviceGetChipName", r);
    return nullptr;
  }
  session->metrics = Metrics::make(api, chip.pChipName, availability, why_not);
  if (session->metrics == nullptr) return nullptr;
  return std::unique_ptr<Counters>(new Counters(std::move(session)));
}

Counters::Counters(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Counters::~Counters() = default;

void Counters::begin(std::int64_t most_ranges) {
  Session& s = *session_;
  s.disable();
  s.why_not.clear();
  s.names.clear();
  s.open = false;
  s.most = static_cast<std::size_t>(std::max<std::int64_t>(most_ranges, 1));
  s.begin();
}

void Counters::push(const char* range) {
  Session& s = *session_;
  if (!s.started || !s.why_not.empty()) return;
  if (s.open || s.names.size() == s.most) {
    s.why_not = s.open ? "a range was pushed inside another"
                       : "more than " + std::to_string(s.most) + " ranges were pushed";
    return;
  }
  s.push(range);
}

void Counters::pop() {
  if (session_->open) session_->pop();
}

Counted Counters::end() {
  Session& s = *session_;
  if (s.profiler == nullptr && s.why_not.empty()) s.why_not = "end without begin";
  Counted counted;
  if (s.started) {
    s.stop();
    if (s.why_not.empty()) s.decode();
    if (s.why_not.empty()) counted.ranges = s.collect();
  }
  s.disable();
  if (!s.why_not.empty()) counted.ranges.clear();
  counted.why_not = s.why_not;
  return counted;
}

}  // namespace ac_advisor::trainer
